//! Folds of Riak's HTTP interface. A request waits until its fold has ended.

use super::connection::HttpConnection;
use super::fold_json::{JsonList, Undecodable, put_codes, put_text};
use super::fold_route::{FoldRoute, RangeFold};
use super::refusal::Refusal;
use super::response::{JSON, reply};
use super::route::BucketName;
use super::uri::query_value;
use crate::memory::GatheredMemory;
use quoit_core::{
    Deadline, FoldFound, FoldKind, FoldMode, FoldProgress, RecordRange, RequestError, TreeClock,
};
use quoit_model::context::encode_riak_context;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::segments::{Segments, TreeSize};
use quoit_riak::{
    CachedFilter, CachedFilterError, ChangeMethod, FilterError, RangeFilter, SegmentFilter, Tree,
};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::IntErrorKind;
use std::sync::Arc;

/// Time limit of a fold: one hour.
const FOLD_TIMEOUT_MS: u64 = 3_600_000;
/// Memory of a found record as text, besides its key and version vector, in bytes.
const FOUND_BYTES: usize = 128;
/// Bytes of text for each byte of a tree. Each six bits become a number of up to three digits and a comma.
const TREE_TEXT_BYTES: usize = 6;
/// Approximate size in bytes of a compressed empty branch with its number.
const BRANCH_TEXT_BYTES: usize = 256;

impl From<FilterError> for Refusal {
    fn from(fault: FilterError) -> Self {
        Self::bad(fault.to_string())
    }
}

impl From<CachedFilterError> for Refusal {
    fn from(fault: CachedFilterError) -> Self {
        Self::bad(fault.to_string())
    }
}

impl From<Undecodable> for Refusal {
    fn from(fault: Undecodable) -> Self {
        Self::Text(500, format!("Error:\n{fault}\n").into())
    }
}

/// Consumer of the records that a fold finds.
type TakeRecord<'t> = dyn FnMut(&HttpConnection, FoldFound) -> Result<(), Refusal> + Send + 't;

impl HttpConnection {
    /// Runs the fold of a path.
    pub(super) async fn fold(&mut self, fold: &FoldRoute<'_>, query: &[u8]) -> Result<(), Refusal> {
        let filter = query_value(query, "filter");
        let filter = filter.as_deref().map(String::from_utf8_lossy);
        match fold {
            FoldRoute::CachedRoot(n_val) => {
                let n_val = cached_n_val(n_val)?;
                let store = Arc::clone(&self.context.store);
                let root =
                    self.in_time(async move { store.riak_trees().root(n_val).await }).await?;
                let mut text = String::from("{\"root\":");
                put_codes(&mut text, &root);
                text.push('}');
                self.write_text(&text)
            }
            FoldRoute::CachedBranches(n_val) => {
                self.cached_branches(cached_n_val(n_val)?, filter).await
            }
            FoldRoute::CachedClocks(n_val) => {
                self.cached_clocks(cached_n_val(n_val)?, filter).await
            }
            FoldRoute::BucketList => self.bucket_list(query).await,
            FoldRoute::Range(bucket, fold) => self.range_fold(bucket, fold, filter).await,
        }
    }

    async fn cached_branches(
        &mut self,
        n_val: u32,
        filter: Option<Cow<'_, str>>,
    ) -> Result<(), Refusal> {
        let filter = filter.ok_or_else(|| no_filter("branch"))?;
        let numbers = CachedFilter::parse_branches(&filter)?;
        let count = TreeSize::Large.branch_count();
        if let Some(none) = numbers.iter().find(|number| **number >= count) {
            return Err(Refusal::bad(format!("Invalid branch {none}: a tree has {count}\n")));
        }
        self.hold_answer(numbers.len() * quoit_riak::BRANCH_BYTES * TREE_TEXT_BYTES)?;
        let (store, wanted) = (Arc::clone(&self.context.store), numbers.clone());
        let branches =
            self.in_time(async move { store.riak_trees().branches(n_val, &wanted).await }).await?;
        let mut list = JsonList::new("branches");
        for (number, branch) in numbers.iter().zip(&branches) {
            let item = list.item();
            let _ = write!(item, "{{\"branch-id\":{number},\"branch\":");
            put_codes(item, branch);
            item.push('}');
        }
        self.write_text(&list.finish())
    }

    async fn cached_clocks(
        &mut self,
        n_val: u32,
        filter: Option<Cow<'_, str>>,
    ) -> Result<(), Refusal> {
        let filter = filter.ok_or_else(|| no_filter("keysclocks"))?;
        let (segments, modified) = match CachedFilter::parse_segments(&filter)? {
            CachedFilter::Numbers(numbers) => {
                (SegmentFilter { segments: numbers, tree_size: TreeSize::Large }, None)
            }
            CachedFilter::Segments(segments, modified) => (segments, modified),
        };
        let segments = segments_of(segments)?;
        let store = Arc::clone(&self.context.store);
        let clocks = self
            .in_time(async move { store.riak_trees().clocks(n_val, &segments, modified).await })
            .await?;
        let mut gathered = GatheredMemory::new(&self.memory);
        let mut list = JsonList::new("keys-clocks");
        for TreeClock { bucket_type, bucket, key, clock, .. } in clocks {
            gathered.add(bucket.len() + key.len() + FOUND_BYTES)?;
            let clock = encode_riak_context(&clock);
            let bucket = BucketRef { bucket_type: &bucket_type, bucket: &bucket };
            put_key_clock(list.item(), bucket.key(&key), &clock)?;
        }
        self.write_text(&list.finish())
    }

    async fn bucket_list(&mut self, query: &[u8]) -> Result<(), Refusal> {
        if let Some(n_val) = query_value(query, "nval") {
            let text = String::from_utf8_lossy(&n_val);
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| Refusal::bad(format!("Invalid n_val {text:?}")))?;
        }
        self.hold_pieces()?;
        let store = Arc::clone(&self.context.store);
        let mut fold = self.in_time(async move { store.listings().fold_buckets().await }).await?;
        let mut gathered = GatheredMemory::new(&self.memory);
        let mut list = JsonList::new("results");
        while let Some((bucket_type, buckets)) = fold.next().await? {
            for bucket in buckets {
                gathered.add(bucket.len() + FOUND_BYTES)?;
                let item = list.item();
                item.push('{');
                if bucket_type != DEFAULT_BUCKET_TYPE {
                    put_text(item, "bucket-type", &bucket_type)?;
                    item.push(',');
                }
                put_text(item, "bucket", &bucket)?;
                item.push('}');
            }
        }
        self.write_text(&list.finish())
    }

    async fn range_fold(
        &mut self,
        bucket: &BucketName<'_>,
        fold: &RangeFold<'_>,
        filter: Option<Cow<'_, str>>,
    ) -> Result<(), Refusal> {
        if let RangeFold::Tree(size) = fold {
            tree_size(size)?;
        }
        let kind = kind_of(fold)?;
        let filter = match filter {
            Some(filter) => RangeFilter::parse(&filter)?,
            None => RangeFilter::default(),
        };
        self.check_type(bucket.as_ref())?;
        let range = range_of(bucket, &filter)?;
        let method = match filter.change_method {
            None | Some(ChangeMethod::Count) => FoldMode::Count,
            Some(ChangeMethod::Local | ChangeMethod::Job(_)) => FoldMode::Change,
        };
        match fold {
            RangeFold::Tree(size) => self.range_tree(range, tree_size(size)?, filter.salt).await,
            RangeFold::Repl(queue) => self.range_repl(range, queue).await,
            RangeFold::Clocks | RangeFold::Tombs => {
                let (bucket_type, bucket) = (range.bucket_type.clone(), range.bucket.clone());
                let mut list = JsonList::new("keys-clocks");
                self.fold_each(range, kind, &mut |_, found| {
                    let FoldFound { key, clock, .. } = found;
                    let bucket = BucketRef { bucket_type: &bucket_type, bucket: &bucket };
                    Ok(put_key_clock(list.item(), bucket.key(&key), &clock)?)
                })
                .await?;
                self.write_text(&list.finish())
            }
            RangeFold::Siblings(_) | RangeFold::Sizes(_) => {
                let mut list = JsonList::new("results");
                self.fold_each(range, kind, &mut |_, found| {
                    let item = list.item();
                    item.push('{');
                    put_text(item, "key", &found.key)?;
                    let _ = write!(item, ",\"value\":{}}}", found.number);
                    Ok(())
                })
                .await?;
                self.write_text(&list.finish())
            }
            RangeFold::Stats => {
                let progress = self.fold_each(range, kind, &mut |_, _| Ok(())).await?;
                self.write_json(&json!({
                    "total_count": progress.looked_at_count,
                    "total_size": progress.looked_at_bytes,
                    "sizes": bars(&progress.sizes),
                    "siblings": bars(&progress.siblings),
                }));
                Ok(())
            }
            RangeFold::Repair => self.dispatched(range, kind).await,
            RangeFold::Reap => self.dispatched(range, FoldKind::ReapTombs(method)).await,
            RangeFold::Erase => self.dispatched(range, FoldKind::EraseKeys(method)).await,
        }
    }

    async fn dispatched(&mut self, range: RecordRange, kind: FoldKind) -> Result<(), Refusal> {
        let progress = self.fold_each(range, kind, &mut |_, _| Ok(())).await?;
        self.write_json(&json!({"dispatched_count": progress.match_count}));
        Ok(())
    }

    async fn range_repl(&mut self, range: RecordRange, queue: &[u8]) -> Result<(), Refusal> {
        let queue = super::queues::queue_name(&self.context.store, queue)?;
        let into = Some(&*queue);
        let progress = self.fold_into(range, FoldKind::ReplKeys, into, &mut |_, _| Ok(())).await?;
        self.write_json(&json!({"dispatched_count": progress.match_count}));
        Ok(())
    }

    async fn range_tree(
        &mut self,
        range: RecordRange,
        size: TreeSize,
        salt: Option<u32>,
    ) -> Result<(), Refusal> {
        let mut tree = Tree::empty(size);
        self.fold_each(range, FoldKind::TreeEntries(salt), &mut |_, found| {
            if let Some(entry) = found.tree_entry {
                tree.toggle(entry);
            }
            Ok(())
        })
        .await?;
        self.hold_answer(size.branch_count() as usize * BRANCH_TEXT_BYTES)?;
        let mut text = String::from("{\"tree\":{\"level1\":");
        put_codes(&mut text, &tree.root());
        text.push_str(",\"level2\":{");
        for (number, branch) in tree.compressed_branches() {
            if number > 0 {
                text.push(',');
            }
            let _ = write!(text, "\"{number}\":");
            put_codes(&mut text, &branch);
        }
        text.push_str("}}}");
        self.write_text(&text)
    }

    /// Runs a fold to its end, and passes the records that it finds to `take`. Returns the statistics of
    /// the fold.
    async fn fold_each(
        &mut self,
        range: RecordRange,
        kind: FoldKind,
        take: &mut TakeRecord<'_>,
    ) -> Result<FoldProgress, Refusal> {
        self.fold_into(range, kind, None, take).await
    }

    /// Like [`HttpConnection::fold_each`], for a fold that may put keys into a queue.
    async fn fold_into(
        &mut self,
        range: RecordRange,
        kind: FoldKind,
        queue: Option<&str>,
        take: &mut TakeRecord<'_>,
    ) -> Result<FoldProgress, Refusal> {
        self.hold_pieces()?;
        let deadline = Deadline::after_ms(FOLD_TIMEOUT_MS);
        let store = Arc::clone(&self.context.store);
        let begun =
            Box::pin(
                async move { deadline.limit(store.folds().begin(range, kind, u64::MAX)).await },
            );
        let mut fold = self.unless_disconnected(begun).await??;
        if let Some(queue) = queue {
            fold = fold.into_queue(queue);
        }
        let mut gathered = GatheredMemory::new(&self.memory);
        loop {
            let step = Box::pin(async { deadline.limit(fold.step()).await });
            let Some(found) = self.unless_disconnected(step).await?? else { break };
            for each in found {
                gathered.add(each.key.len() + each.clock.len() + FOUND_BYTES)?;
                take(self, each)?;
            }
        }
        Ok(fold.progress().clone())
    }

    /// Waits for a fold that has no steps, within the time limit.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, RequestError>> + Send,
    ) -> Result<T, Refusal> {
        let deadline = Deadline::after_ms(FOLD_TIMEOUT_MS);
        Ok(self.unless_disconnected(Box::pin(deadline.limit(work))).await??)
    }

    fn write_text(&mut self, json: &str) -> Result<(), Refusal> {
        self.hold_answer(json.len())?;
        reply(&mut self.out, self.form, 200).content_type(JSON).finish(json.as_bytes());
        Ok(())
    }
}

fn put_key_clock(item: &mut String, key: KeyRef<'_>, clock: &[u8]) -> Result<(), Undecodable> {
    let KeyRef { bucket: BucketRef { bucket_type, bucket }, key } = key;
    item.push('{');
    if bucket_type != DEFAULT_BUCKET_TYPE {
        put_text(item, "bucket-type", bucket_type)?;
        item.push(',');
    }
    put_text(item, "bucket", bucket)?;
    item.push(',');
    put_text(item, "key", key)?;
    item.push_str(",\"clock\":");
    put_codes(item, clock);
    item.push('}');
    Ok(())
}

/// A histogram as JSON. An empty one is an empty list, as Riak's encoder writes it.
fn bars(bars: &BTreeMap<u32, u64>) -> Value {
    if bars.is_empty() {
        return json!([]);
    }
    bars.iter().map(|(bar, count)| (bar.to_string(), json!(count))).collect()
}

fn cached_n_val(text: &[u8]) -> Result<u32, Refusal> {
    let text = String::from_utf8_lossy(text);
    let shown = match text.parse::<i64>() {
        Ok(number) => match u32::try_from(number) {
            Ok(n_val) if n_val > 0 => return Ok(n_val),
            _ => number.to_string(),
        },
        Err(_) => format!("{text:?}"),
    };
    Err(Refusal::bad(format!("Cached tree request invalid nval {shown}")))
}

fn no_filter(fold: &str) -> Refusal {
    Refusal::bad(format!("Filter query param required for {fold} aae fold"))
}

fn tree_size(text: &[u8]) -> Result<TreeSize, Refusal> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| Refusal::bad(format!("Invalid treesize {text:?}")))
}

fn kind_of(fold: &RangeFold<'_>) -> Result<FoldKind, Refusal> {
    Ok(match fold {
        RangeFold::Siblings(count) => {
            let count = finder_number(&SIBLING_COUNT, count)?;
            FoldKind::ManySiblings(u32::try_from(count).unwrap_or(u32::MAX))
        }
        RangeFold::Sizes(bytes) => FoldKind::Large(finder_number(&OBJECT_SIZE, bytes)?),
        RangeFold::Stats => FoldKind::ObjectStats,
        RangeFold::Tombs => FoldKind::FindTombs,
        RangeFold::Repair => FoldKind::RepairKeys,
        RangeFold::Reap => FoldKind::ReapTombs(FoldMode::Count),
        RangeFold::Erase => FoldKind::EraseKeys(FoldMode::Count),
        RangeFold::Tree(_) | RangeFold::Clocks | RangeFold::Repl(_) => FoldKind::FetchClocks,
    })
}

/// A fold that takes a number.
struct NumberedFold {
    name: &'static str,
    /// Name of its number.
    number: &'static str,
}

const SIBLING_COUNT: NumberedFold = NumberedFold { name: "sibling_count", number: "count" };
const OBJECT_SIZE: NumberedFold = NumberedFold { name: "object_size", number: "size" };

fn finder_number(fold: &NumberedFold, text: &[u8]) -> Result<u64, Refusal> {
    let NumberedFold { name, number: parameter } = fold;
    let text = String::from_utf8_lossy(text);
    let shown = match text.parse::<i64>() {
        Ok(number) if number > 0 => return Ok(number.unsigned_abs()),
        Ok(number) => number.to_string(),
        // Larger than any count.
        Err(fault) if *fault.kind() == IntErrorKind::PosOverflow => return Ok(u64::MAX),
        Err(_) => format!("{text:?}"),
    };
    Err(Refusal::bad(format!("{name} requires integer for {parameter}. Value {shown} invalid")))
}

fn segments_of(filter: SegmentFilter) -> Result<Segments, Refusal> {
    let segments = Segments::new(filter.tree_size, filter.segments);
    segments.map_err(|fault| Refusal::bad(format!("{fault}\n")))
}

fn range_of(bucket: &BucketName<'_>, filter: &RangeFilter) -> Result<RecordRange, Refusal> {
    let mut range = RecordRange::all(bucket.as_ref());
    if let Some((first, last)) = &filter.keys {
        range.first_key = first.clone();
        range.last_key = Some(last.clone());
    }
    range.modified_secs = filter.modified_secs;
    range.segments = filter.segments.clone().map(segments_of).transpose()?;
    Ok(range)
}

/// Parses the filter of a query in all ways, for fuzzing.
pub(super) fn fuzz(query: &[u8]) {
    let Some(filter) = query_value(query, "filter") else { return };
    let filter = String::from_utf8_lossy(&filter);
    let _ = CachedFilter::parse_branches(&filter);
    let _ = CachedFilter::parse_segments(&filter);
    let _ = RangeFilter::parse(&filter);
}
