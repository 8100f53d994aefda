//! Operations on documents, which are written once.

use bytes::Bytes;
use quoit_client::wire::messages::{RpbContent, RpbDelReq, RpbDelResp, RpbGetReq, RpbGetResp};
use rand::Rng as _;
use tokio::time::{Instant, timeout_at};

use super::Nhs;
use super::plan::NhsPlan;
use crate::driver::Inputs;
use crate::driver::indexes;
use crate::driver::pb_link::{CallError, PbLink, Reconnects};
use crate::term::Term;

impl Nhs {
    fn document_key(&self, plan: &NhsPlan, number: u64) -> Bytes {
        self.identity.key(number, plan.document_order).into()
    }

    /// Writes the next document. With `with_check`, and if the second cluster is connected, waits until it
    /// arrives there.
    pub(super) async fn put_document(
        &mut self,
        plan: &NhsPlan,
        with_check: bool,
    ) -> Result<(), Term> {
        let key = self.document_key(plan, self.next_document);
        let bucket = &plan.document_bucket.name;
        let indexes = vec![indexes::last_modified()];
        let content = RpbContent { value: self.document(plan), indexes, ..RpbContent::default() };
        self.put(plan, bucket, key.clone(), None, content).await?;
        self.next_document += 1;
        match &mut self.repl {
            Some(repl) if with_check => wait_for_copy(repl, plan, bucket, key).await,
            _ => Ok(()),
        }
    }

    pub(super) async fn put_in_long_bucket(&mut self, plan: &NhsPlan) -> Result<(), Term> {
        let key = self.document_key(plan, self.next_document);
        let bucket = Bytes::from_static(self.long_bucket.as_bytes());
        let content = RpbContent { value: self.document(plan), ..RpbContent::default() };
        self.put(plan, &bucket, key, None, content).await?;
        self.next_document += 1;
        Ok(())
    }

    /// Reads a random document after the oldest one. It may be the next one to be written, which does not
    /// exist yet.
    pub(super) async fn get_document(
        &mut self,
        plan: &NhsPlan,
        inputs: &mut Inputs,
    ) -> Result<(), Term> {
        let count = self.next_document - self.oldest_document;
        let number = self.oldest_document + inputs.random().uniform(count.max(1));
        let key = self.document_key(plan, number);
        self.get(plan, &plan.document_bucket.name, key).await.map(drop)
    }

    /// Deletes the oldest document. A document whose deletion fails is not tried again.
    pub(super) async fn delete_document(&mut self, plan: &NhsPlan) -> Result<(), Term> {
        if self.oldest_document == self.next_document {
            return Ok(());
        }
        let key = self.document_key(plan, self.oldest_document);
        self.oldest_document += 1;
        let bucket = plan.document_bucket.name.clone();
        let request = RpbDelReq { bucket, key, ..RpbDelReq::default() };
        self.ready(plan).await?;
        let RpbDelResp {} = self.pb.link().call(&request, plan.pb_timeout).await?;
        Ok(())
    }

    fn document(&mut self, plan: &NhsPlan) -> Bytes {
        let mut bytes = vec![0; plan.document_bytes];
        self.strong.fill_bytes(&mut bytes);
        bytes.into()
    }
}

/// Reads a key from the second cluster, without pauses, until it is there. This delay is what the operation
/// measures. Fails with `repl_timeout` after `fold_timeout`.
async fn wait_for_copy(
    repl: &mut PbLink,
    plan: &NhsPlan,
    bucket: &Bytes,
    key: Bytes,
) -> Result<(), Term> {
    let give_up_at = Instant::now() + plan.fold_timeout;
    let mut reconnects = Reconnects::within(plan.fold_timeout);
    let request = RpbGetReq { bucket: bucket.clone(), key, ..RpbGetReq::default() };
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Term::atom("repl_timeout"));
        }
        if repl.is_down() {
            // An error means that the time is up, which the next iteration detects.
            let _ = timeout_at(give_up_at, repl.reconnect(&mut reconnects)).await;
            continue;
        }
        let answer: Result<RpbGetResp, CallError> =
            repl.call(&request, plan.pb_timeout.min(left)).await;
        if answer.is_ok_and(|answer| !answer.content.is_empty()) {
            return Ok(());
        }
    }
}
