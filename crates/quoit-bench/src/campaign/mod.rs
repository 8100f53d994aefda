//! Campaigns: experiments in all variants of a matrix, each with servers of its own, and one report.
//!
//! A campaign is a file of Erlang terms ([`Campaign`]). Its matrix spans cells. A cell is a plan of servers,
//! up to three loads, and events. The command ([`campaign`]) runs the cells one after another. For each cell
//! it has the servers started (by a [`ServerStarter`], which another crate implements, because this crate
//! depends on no server), performs the loads as ordinary runs, and stops the servers. After each cell it
//! writes the state, from which a second call continues, and the report, which compares published figures
//! with the measured ones.

mod cell;
mod cell_run;
mod command;
mod error;
mod event;
mod fields;
mod figure;
mod file;
mod interruption;
mod matrix;
mod measured;
mod page;
mod published;
mod resources;
mod scale;
mod select;
mod server_plan;
mod servers;
mod shipped;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use cell::CampaignCell;
pub use command::{CampaignOptions, campaign, list_campaigns, show_campaign};
pub use error::CampaignError;
pub use file::Campaign;
pub use scale::{CampaignScale, ScaleError};
pub use server_plan::ServerPlan;
pub use servers::{NodeAction, NodeAddresses, ServerFault, ServerStarter, StartedServers};
pub use shipped::{shipped_names, shipped_text};
