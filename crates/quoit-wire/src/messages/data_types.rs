//! Data types: counters, sets, maps, HyperLogLogs, grow-only sets.

use super::declare::messages;

/// The data type of a bucket type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Counter.
    Counter = 1,
    /// Set.
    Set = 2,
    /// Map.
    Map = 3,
    /// HyperLogLog.
    Hll = 4,
    /// Grow-only set.
    Gset = 5,
}

/// The data type of a field of a map. The numbers differ from those of [`DataType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum MapFieldType {
    /// Counter.
    Counter = 1,
    /// Set.
    Set = 2,
    /// Register.
    Register = 3,
    /// Flag.
    Flag = 4,
    /// Map.
    Map = 5,
}

/// Operation on a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FlagOp {
    /// Enables the flag.
    Enable = 1,
    /// Disables the flag.
    Disable = 2,
}

messages! {
    /// A field of a map. Fields of different types may have the same name.
    message MapField {
        /// Name.
        required bytes name = 1;
        /// Type.
        required enumeration(MapFieldType) kind = 2;
    }

    /// A field of a map with its value, in the member of its type.
    message MapEntry {
        /// The field.
        required message(MapField) field = 1;
        /// Value of a counter.
        optional sint64 counter_value = 2;
        /// Elements of a set.
        repeated bytes set_value = 3;
        /// Value of a register; absent if it was never assigned.
        optional bytes register_value = 4;
        /// Value of a flag.
        optional bool flag_value = 5;
        /// Fields of a map.
        repeated message(MapEntry) map_value = 6;
    }

    /// The value of a data type, in the member of its type.
    message DtValue {
        /// Value of a counter.
        optional sint64 counter_value = 1;
        /// Elements of a set, sorted.
        repeated bytes set_value = 2;
        /// Fields of a map.
        repeated message(MapEntry) map_value = 3;
        /// Estimated number of elements of a HyperLogLog.
        optional uint64 hll_value = 4;
        /// Elements of a grow-only set.
        repeated bytes gset_value = 5;
    }

    /// Reads a data type.
    message DtFetchReq: DtFetchReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Bucket type.
        required bytes bucket_type = 3;
        /// Replicas that must answer.
        optional uint32 r = 4;
        /// Primaries that must answer.
        optional uint32 pr = 5;
        /// True if a majority of failures ends the read early.
        optional bool basic_quorum = 6;
        /// True if "not found" counts as an answer.
        optional bool notfound_ok = 7;
        /// Timeout in milliseconds.
        optional uint32 timeout = 8;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 9;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 10;
        /// False to omit the context.
        optional bool include_context = 11;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 12;
    }

    /// Answer to [`DtFetchReq`].
    message DtFetchResp: DtFetchResp {
        /// The context, to be sent back with removes.
        optional bytes context = 1;
        /// Data type of the bucket, even if nothing was found.
        required enumeration(DataType) kind = 2;
        /// The value; absent if nothing was found.
        optional message(DtValue) value = 3;
    }

    /// Queries a part of a data type without reading the rest. Without `element`, `field` and
    /// `page_size`, the query is for the number of elements or fields. Quoit's own.
    message DtQueryReq: DtQueryReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Bucket type.
        required bytes bucket_type = 3;
        /// Replicas that must answer.
        optional uint32 r = 4;
        /// Primaries that must answer.
        optional uint32 pr = 5;
        /// True if a majority of failures ends the read early.
        optional bool basic_quorum = 6;
        /// True if "not found" counts as an answer.
        optional bool notfound_ok = 7;
        /// Timeout in milliseconds.
        optional uint32 timeout = 8;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 9;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 10;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 12;
        /// Element whose membership in the set is queried.
        optional bytes element = 13;
        /// Field of the map whose value is queried.
        optional message(MapField) field = 14;
        /// Number of elements or fields of a page, in an order that the server determines; 0 counts
        /// as 1.
        optional uint32 page_size = 15;
        /// End of the previous page, from its answer; absent for the first page.
        optional bytes cursor = 16;
        /// Path of the set or map within the record, the outermost field first.
        repeated message(MapField) path = 17;
    }

    /// Answer to [`DtQueryReq`].
    message DtQueryResp: DtQueryResp {
        /// Data type of the bucket, or of the field at the path, even if nothing was found.
        required enumeration(DataType) kind = 1;
        /// True if the record exists and, in it, the field at the path.
        required bool found = 2;
        /// Number of elements or fields.
        optional uint64 size = 3;
        /// True if the element is in the set.
        optional bool contains = 4;
        /// The elements or fields of the page; for a queried field, a map of that field, empty if
        /// the field is absent.
        optional message(DtValue) value = 5;
        /// Cursor of the next page; absent after the last one.
        optional bytes cursor = 6;
    }

    /// Adds to a counter.
    message CounterOp {
        /// Amount to add; 1 if absent.
        optional sint64 increment = 1;
    }

    /// Changes a set: all adds, then all removes.
    message SetOp {
        /// Elements to add.
        repeated bytes adds = 1;
        /// Elements to remove.
        repeated bytes removes = 2;
    }

    /// Adds to a grow-only set.
    message GSetOp {
        /// Elements to add.
        repeated bytes adds = 1;
    }

    /// Adds to a HyperLogLog.
    message HllOp {
        /// Elements to add.
        repeated bytes adds = 1;
    }

    /// Changes a field of a map, in the member of its type.
    message MapUpdate {
        /// The field.
        required message(MapField) field = 1;
        /// For a counter.
        optional message(CounterOp) counter_op = 2;
        /// For a set.
        optional message(SetOp) set_op = 3;
        /// For a register: its new value.
        optional bytes register_op = 4;
        /// For a flag.
        optional enumeration(FlagOp) flag_op = 5;
        /// For a map.
        optional message(MapOp) map_op = 6;
    }

    /// Changes a map: first all removes, then the updates in order.
    message MapOp {
        /// Fields to remove.
        repeated message(MapField) removes = 1;
        /// Fields to change.
        repeated message(MapUpdate) updates = 2;
    }

    /// A change of a data type, in the member of its type.
    message DtOp {
        /// For a counter.
        optional message(CounterOp) counter_op = 1;
        /// For a set.
        optional message(SetOp) set_op = 2;
        /// For a map.
        optional message(MapOp) map_op = 3;
        /// For a HyperLogLog.
        optional message(HllOp) hll_op = 4;
        /// For a grow-only set.
        optional message(GSetOp) gset_op = 5;
    }

    /// Changes a data type.
    message DtUpdateReq: DtUpdateReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key; if absent, the server generates one.
        optional bytes key = 2;
        /// Bucket type.
        required bytes bucket_type = 3;
        /// Context of the value that removes refer to.
        optional bytes context = 4;
        /// The change.
        required message(DtOp) op = 5;
        /// Replicas that must have accepted the write.
        optional uint32 w = 6;
        /// Replicas on which the write must be durable.
        optional uint32 dw = 7;
        /// Primaries that must have accepted the write.
        optional uint32 pw = 8;
        /// True to return the new value.
        optional bool return_body = 9;
        /// Timeout in milliseconds.
        optional uint32 timeout = 10;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 11;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 12;
        /// False to omit the context.
        optional bool include_context = 13;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 14;
    }

    /// Answer to [`DtUpdateReq`], with the value if it was requested.
    message DtUpdateResp: DtUpdateResp {
        /// The key, if the server generated it.
        optional bytes key = 1;
        /// The new context of a set or map.
        optional bytes context = 2;
        /// Value of a counter.
        optional sint64 counter_value = 3;
        /// Elements of a set.
        repeated bytes set_value = 4;
        /// Fields of a map.
        repeated message(MapEntry) map_value = 5;
        /// Estimated number of elements of a HyperLogLog.
        optional uint64 hll_value = 6;
        /// Elements of a grow-only set.
        repeated bytes gset_value = 7;
    }
}
