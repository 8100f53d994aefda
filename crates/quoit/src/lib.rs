//! The configuration of a node: its keys, the syntax of `quoit.conf`, and the effective settings.
//!
//! The rest of this crate is the program `quoit`. This part is a library so that fuzz targets and tests can
//! reach the parser of configuration files. It is not meant for other uses.
//!
//! ```
//! use quoit::config::{Origin, parse_text, settings_of};
//!
//! let text = "ring_size = 128\n";
//! let entries = parse_text("quoit.conf".as_ref(), text.as_bytes(), &mut |_| unreachable!()).expect("good");
//! let settings = settings_of(entries).expect("good values");
//! assert_eq!(settings.get("ring_size"), Some("128"));
//! assert_eq!(settings.origin("ring_size"), Some(&Origin::Line("quoit.conf".into(), 1)));
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod config;
