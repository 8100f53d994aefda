//! Conversion of data type operations and values from and to both protocols, as pure functions.
//!
//! | file | contents |
//! | --- | --- |
//! | `json`, `from_json` | operations in JSON, whose members count in their order |
//! | `to_json`, `stream_json` | values in JSON, at once and item by item |
//! | `cursor` | positions in a large set or map, as clients receive them |
//! | `from_pb`, `to_pb` | operations and values in messages |

mod cursor;
mod from_json;
mod from_pb;
mod item_order;
mod json;
mod stream_json;
mod to_json;
mod to_pb;

pub use cursor::{cursor_of, place_of};
pub use from_json::{JsonUpdate, read_field_name, read_update};
pub use from_pb::{UpdateFault, field_name, operation_of};
pub(crate) use item_order::{ItemOrder, NodeStopping, TextCopies};
pub use stream_json::StreamedJson;
pub use to_json::{NotUtf8, append_answer, append_missing, append_value};
pub use to_pb::{data_type_of, fetched_value, map_entry, updated_value, within_64_bits};
