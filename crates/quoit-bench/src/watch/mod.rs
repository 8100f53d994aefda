//! Watching servers: the resources that each server uses during a run, second by second.

mod sample;
mod table;

pub(crate) use sample::{
    COLUMNS, CPU, FIGURE_COUNT, READ, ServerColumn, ServerFigures, WRITTEN, between, of_metrics,
    of_stats,
};
pub(crate) use table::{FILE, ServerRow, ServerTable, read};
