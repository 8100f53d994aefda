//! Quorums of a request, from its parameters and the bucket's properties.

use super::{BucketProps, NValViolation, Quorum};

/// Parameters of a read; `None` stands for the bucket's property.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadParams {
    /// Number of the bucket's replicas to use.
    pub n_val: Option<u32>,
    /// Read quorum.
    pub r: Option<Quorum>,
    /// Read quorum among primaries.
    pub pr: Option<Quorum>,
    /// Number of distinct nodes that must answer.
    pub node_confirms: Option<Quorum>,
    /// True to give up once a majority has failed or found nothing.
    pub basic_quorum: Option<bool>,
    /// True to count "not found" towards `r`.
    pub notfound_ok: Option<bool>,
}

/// Parameters of a write; `None` stands for the bucket's property.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteParams {
    /// Number of the bucket's replicas to use.
    pub n_val: Option<u32>,
    /// Write quorum: replicas that accepted the write.
    pub w: Option<Quorum>,
    /// Write quorum: replicas on which the write is durable.
    pub dw: Option<Quorum>,
    /// Write quorum among primaries.
    pub pw: Option<Quorum>,
    /// Number of distinct nodes that must answer.
    pub node_confirms: Option<Quorum>,
}

/// Parameters of a delete; `None` stands for the bucket's property.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeleteParams {
    /// Number of the bucket's replicas to use.
    pub n_val: Option<u32>,
    /// Quorum of the read and of the write, where their own is not given.
    pub rw: Option<Quorum>,
    /// Quorum of the read.
    pub r: Option<Quorum>,
    /// Quorum of the write: replicas that accepted it.
    pub w: Option<Quorum>,
    /// Quorum of the write: replicas on which it is durable.
    pub dw: Option<Quorum>,
    /// Quorum of the read among primaries.
    pub pr: Option<Quorum>,
    /// Quorum of the write among primaries.
    pub pw: Option<Quorum>,
}

/// Quorums of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadQuorums {
    /// Number of replicas of this read.
    pub n_val: u32,
    /// Number of answers needed.
    pub r: u32,
    /// Number of answers of primaries needed.
    pub pr: u32,
    /// Number of distinct nodes needed. It may exceed `n_val`; reads report that with an error of
    /// their own.
    pub node_confirms: u32,
    /// True to give up once a majority has failed or found nothing.
    pub basic_quorum: bool,
    /// True to count "not found" towards `r`.
    pub notfound_ok: bool,
}

/// Quorums of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteQuorums {
    /// Number of replicas of this write.
    pub n_val: u32,
    /// Number of replicas that must accept the write.
    pub w: u32,
    /// Number of replicas on which the write must be durable.
    pub dw: u32,
    /// Number of primaries that must accept the write.
    pub pw: u32,
    /// Number of distinct nodes needed.
    pub node_confirms: u32,
}

/// Quorums of a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteQuorums {
    /// The read that finds the causal context if the client gave none.
    pub read: ReadQuorums,
    /// The write of the tombstone.
    pub write: WriteQuorums,
}

impl BucketProps {
    /// Computes the quorums of a read with these parameters, at the cost of a few comparisons.
    ///
    /// # Errors
    ///
    /// Returns an error if `r` or `pr` is above the number of replicas, or the `n_val` parameter is
    /// out of range.
    pub fn read_quorums(&self, params: &ReadParams) -> Result<ReadQuorums, NValViolation> {
        let n_val = self.replicas(params.n_val)?;
        Ok(ReadQuorums {
            n_val,
            r: Quorum::effective(params.r, self.r, n_val)?,
            pr: Quorum::effective(params.pr, self.pr, n_val)?,
            node_confirms: params.node_confirms.unwrap_or(self.node_confirms).resolve(n_val),
            basic_quorum: params.basic_quorum.unwrap_or(self.basic_quorum),
            notfound_ok: params.notfound_ok.unwrap_or(self.notfound_ok),
        })
    }

    /// Computes the quorums of a write with these parameters, at the cost of a few comparisons.
    ///
    /// # Errors
    ///
    /// Returns an error if a quorum is above the number of replicas, or the `n_val` parameter is
    /// out of range.
    pub fn write_quorums(&self, params: &WriteParams) -> Result<WriteQuorums, NValViolation> {
        let n_val = self.replicas(params.n_val)?;
        Ok(WriteQuorums {
            n_val,
            w: Quorum::effective(params.w, self.w, n_val)?,
            dw: Quorum::effective(params.dw, self.dw, n_val)?,
            pw: Quorum::effective(params.pw, self.pw, n_val)?,
            node_confirms: Quorum::effective(params.node_confirms, self.node_confirms, n_val)?,
        })
    }

    /// Computes the quorums of a delete with these parameters. If `r` or `w` is given, the read
    /// uses `r` or the property, else `rw`. The write uses `w` if it is given, else `rw`.
    ///
    /// # Errors
    ///
    /// As [`BucketProps::read_quorums`] and [`BucketProps::write_quorums`].
    pub fn delete_quorums(&self, params: &DeleteParams) -> Result<DeleteQuorums, NValViolation> {
        let both = params.rw.unwrap_or(self.rw);
        let r = if params.r.is_some() || params.w.is_some() { params.r } else { Some(both) };
        let n_val = params.n_val;
        let read = ReadParams { n_val, r, pr: params.pr, ..ReadParams::default() };
        let w = Some(params.w.unwrap_or(both));
        let (dw, pw) = (params.dw, params.pw);
        let write = WriteParams { n_val, w, dw, pw, node_confirms: None };
        Ok(DeleteQuorums { read: self.read_quorums(&read)?, write: self.write_quorums(&write)? })
    }

    fn replicas(&self, parameter: Option<u32>) -> Result<u32, NValViolation> {
        match parameter {
            Some(n_val) if n_val == 0 || n_val > self.n_val => Err(NValViolation { n_val }),
            Some(n_val) => Ok(n_val),
            None => Ok(self.n_val),
        }
    }
}
