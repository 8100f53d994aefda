//! Quorums of a request: its parameters, else the bucket's properties, as numbers.

use super::{BucketProps, NValViolation, Quorum};

/// Parameters of a read; `None` = as the bucket's properties say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadParams {
    /// Use only so many of the bucket's replicas.
    pub n_val: Option<u32>,
    /// Read quorum.
    pub r: Option<Quorum>,
    /// Read quorum among primaries.
    pub pr: Option<Quorum>,
    /// Distinct nodes that must answer.
    pub node_confirms: Option<Quorum>,
    /// Give up when a majority has failed or found nothing.
    pub basic_quorum: Option<bool>,
    /// Count "not found" towards `r`.
    pub notfound_ok: Option<bool>,
}

/// Parameters of a write; `None` = as the bucket's properties say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteParams {
    /// Use only so many of the bucket's replicas.
    pub n_val: Option<u32>,
    /// Write quorum: accepted.
    pub w: Option<Quorum>,
    /// Write quorum: durable.
    pub dw: Option<Quorum>,
    /// Write quorum among primaries.
    pub pw: Option<Quorum>,
    /// Distinct nodes that must answer.
    pub node_confirms: Option<Quorum>,
}

/// Parameters of a delete; `None` = as the bucket's properties say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeleteParams {
    /// Use only so many of the bucket's replicas.
    pub n_val: Option<u32>,
    /// Quorum of both halves where the half's own is not given.
    pub rw: Option<Quorum>,
    /// Quorum of the read.
    pub r: Option<Quorum>,
    /// Quorum of the write: accepted.
    pub w: Option<Quorum>,
    /// Quorum of the write: durable.
    pub dw: Option<Quorum>,
    /// Quorum of the read among primaries.
    pub pr: Option<Quorum>,
    /// Quorum of the write among primaries.
    pub pw: Option<Quorum>,
}

/// Quorums of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadQuorums {
    /// Replicas of this read.
    pub n_val: u32,
    /// Answers needed.
    pub r: u32,
    /// Answers of primaries needed.
    pub pr: u32,
    /// Distinct nodes needed; may be above `n_val`, which reads report in a way of their own.
    pub node_confirms: u32,
    /// Give up when a majority has failed or found nothing.
    pub basic_quorum: bool,
    /// Count "not found" towards `r`.
    pub notfound_ok: bool,
}

/// Quorums of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteQuorums {
    /// Replicas of this write.
    pub n_val: u32,
    /// Acceptances needed.
    pub w: u32,
    /// Durable acceptances needed.
    pub dw: u32,
    /// Acceptances of primaries needed.
    pub pw: u32,
    /// Distinct nodes needed.
    pub node_confirms: u32,
}

/// Quorums of a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteQuorums {
    /// The read that finds the causal context when the client gave none.
    pub read: ReadQuorums,
    /// The write of the tombstone.
    pub write: WriteQuorums,
}

impl BucketProps {
    /// The quorums of a read with these parameters. Costs a few comparisons.
    ///
    /// # Errors
    ///
    /// When `r` or `pr` is above the number of replicas, or the `n_val` parameter is out of range.
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

    /// The quorums of a write with these parameters. Costs a few comparisons.
    ///
    /// # Errors
    ///
    /// When a quorum is above the number of replicas, or the `n_val` parameter is out of range.
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

    /// The quorums of a delete with these parameters: the read for `r` when `r` or `w` is given,
    /// else for `rw`; the write for `w` when given, else for `rw`.
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
