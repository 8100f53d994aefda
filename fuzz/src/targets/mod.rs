//! The targets, one module for each parser.

pub(crate) mod pb_frames;
pub(crate) mod record_keys;
pub(crate) mod stored_objects;
