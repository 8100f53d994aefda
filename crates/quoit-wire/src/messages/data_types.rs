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
    /// Set that only grows.
    Gset = 5,
}

/// The data type of a field of a map; other numbers than those of [`DataType`].
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
    /// Set it.
    Enable = 1,
    /// Clear it.
    Disable = 2,
}

messages! {
    /// A field of a map. The same name may exist once with each type.
    message MapField {
        /// Name.
        required bytes name = 1;
        /// Type.
        required enumeration(MapFieldType) kind = 2;
    }

    /// A field of a map with its value, which is in the member of its type.
    message MapEntry {
        /// The field.
        required message(MapField) field = 1;
        /// Value of a counter.
        optional sint64 counter_value = 2;
        /// Members of a set.
        repeated bytes set_value = 3;
        /// Value of a register; absent while it was never assigned.
        optional bytes register_value = 4;
        /// Value of a flag.
        optional bool flag_value = 5;
        /// Entries of a map.
        repeated message(MapEntry) map_value = 6;
    }

    /// The value of a data type, in the member of its type.
    message DtValue {
        /// Value of a counter.
        optional sint64 counter_value = 1;
        /// Members of a set, sorted.
        repeated bytes set_value = 2;
        /// Entries of a map.
        repeated message(MapEntry) map_value = 3;
        /// Estimated number of members of a HyperLogLog.
        optional uint64 hll_value = 4;
        /// Members of a grow-only set.
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
        /// Primary replicas that must answer.
        optional uint32 pr = 5;
        /// Whether a majority of failures ends the read early.
        optional bool basic_quorum = 6;
        /// Whether a replica without the object counts as an answer.
        optional bool notfound_ok = 7;
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 8;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 9;
        /// Use only that many of the preference list.
        optional uint32 n_val = 10;
        /// False: leave the context out.
        optional bool include_context = 11;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 12;
    }

    /// The answer of [`DtFetchReq`].
    message DtFetchResp: DtFetchResp {
        /// The context, to be sent back with removes.
        optional bytes context = 1;
        /// The data type of the bucket, also when nothing was found.
        required enumeration(DataType) kind = 2;
        /// The value; absent, nothing was found.
        optional message(DtValue) value = 3;
    }

    /// Asks about a part of a data type, without reading the rest: with neither `element`, `field` nor
    /// `page_size` for the number of its elements or fields. Quoit's own.
    message DtQueryReq: DtQueryReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Bucket type.
        required bytes bucket_type = 3;
        /// Replicas that must answer.
        optional uint32 r = 4;
        /// Primary replicas that must answer.
        optional uint32 pr = 5;
        /// Whether a majority of failures ends the read early.
        optional bool basic_quorum = 6;
        /// Whether a replica without the object counts as an answer.
        optional bool notfound_ok = 7;
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 8;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 9;
        /// Use only that many of the preference list.
        optional uint32 n_val = 10;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 12;
        /// Is this an element of the set?
        optional bytes element = 13;
        /// Asks for the value of this field of the map.
        optional message(MapField) field = 14;
        /// So many elements or fields, in an order of the server's; 0 counts as 1.
        optional uint32 page_size = 15;
        /// Where the former page ended, as its answer said; absent for the first one.
        optional bytes cursor = 16;
        /// Asks this of the set or map in the record: the fields on the way to it, the outermost first.
        repeated message(MapField) path = 17;
    }

    /// The answer of [`DtQueryReq`].
    message DtQueryResp: DtQueryResp {
        /// The data type of the bucket, or that of the field at the path, also when nothing was found.
        required enumeration(DataType) kind = 1;
        /// Whether there is such a record, and in it such a field.
        required bool found = 2;
        /// Number of elements or fields.
        optional uint64 size = 3;
        /// Whether the element is in the set.
        optional bool contains = 4;
        /// The elements or fields of the page; a map of the field that was asked for, empty without it.
        optional message(DtValue) value = 5;
        /// Where the next page begins; absent after the last.
        optional bytes cursor = 6;
    }

    /// Adds to a counter.
    message CounterOp {
        /// Amount to add; 1 when absent.
        optional sint64 increment = 1;
    }

    /// Changes a set: all adds, then all removes.
    message SetOp {
        /// Members to add.
        repeated bytes adds = 1;
        /// Members to remove.
        repeated bytes removes = 2;
    }

    /// Adds to a grow-only set.
    message GSetOp {
        /// Members to add.
        repeated bytes adds = 1;
    }

    /// Adds to a HyperLogLog.
    message HllOp {
        /// Members to add.
        repeated bytes adds = 1;
    }

    /// Changes a field of a map, by the member of its type.
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

    /// Changes a map: all removes, then the updates in their order.
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
        /// Key; absent, the server chooses one.
        optional bytes key = 2;
        /// Bucket type.
        required bytes bucket_type = 3;
        /// The context of the value that removes refer to.
        optional bytes context = 4;
        /// The change.
        required message(DtOp) op = 5;
        /// Replicas that must have accepted the write.
        optional uint32 w = 6;
        /// Replicas that must have it on stable storage.
        optional uint32 dw = 7;
        /// Primary replicas that must have accepted the write.
        optional uint32 pw = 8;
        /// Return the new value.
        optional bool return_body = 9;
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 10;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 11;
        /// Use only that many of the preference list.
        optional uint32 n_val = 12;
        /// False: leave the context out.
        optional bool include_context = 13;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 14;
    }

    /// The answer of [`DtUpdateReq`]; the value only if it was asked for.
    message DtUpdateResp: DtUpdateResp {
        /// The key, if the server chose it.
        optional bytes key = 1;
        /// The new context of a set or map.
        optional bytes context = 2;
        /// Value of a counter.
        optional sint64 counter_value = 3;
        /// Members of a set.
        repeated bytes set_value = 4;
        /// Entries of a map.
        repeated message(MapEntry) map_value = 5;
        /// Estimated number of members of a HyperLogLog.
        optional uint64 hll_value = 6;
        /// Members of a grow-only set.
        repeated bytes gset_value = 7;
    }
}
