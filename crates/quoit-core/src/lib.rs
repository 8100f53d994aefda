//! The replicated store: coordination of get, put, delete and coverage over local engines.
