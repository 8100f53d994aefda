//! Estimating the number of nodes that a load needs, from a law of scaling that is fitted to measured
//! clusters and from the space that the data needs.

mod command;
mod error;
mod law;
mod needs;
mod points;

pub use command::{CapacityOptions, capacity};
pub use error::CapacityError;
pub use law::{ClusterPoint, ScalingLaw};
