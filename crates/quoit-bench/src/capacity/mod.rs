//! How many nodes a load needs: a law of scaling fitted to measured clusters, and room for the data.

mod command;
mod error;
mod law;
mod needs;
mod points;

pub use command::{CapacityOptions, capacity};
pub use error::CapacityError;
pub use law::{ClusterPoint, ScalingLaw};
