//! Messages of the client protocols and their framing: byte-exact encode and decode, no behaviour.
