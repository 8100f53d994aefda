//! Agents that run the workers: their addresses, and the configuration that each is sent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Arrivals, Config, ConfigError, Pacing, RunLength, Settings, Target, TargetOverride};
use crate::link::{DEFAULT_PORT, LinkError, LinkSecurity, RunOrder, check_files_size};
use crate::random::Seed;
use crate::share::Share;
use crate::term::Term;

/// The expected form of `agents`, for error messages.
const AGENTS_EXPECTED: &str = "write a list of \"host\" or \"host:port\"";

/// The expected form of `remote_nodes`, for error messages.
const NODES_EXPECTED: &str = "write a list of {'host', 'name'}";

/// Keys whose values may name files that a run reads.
const KEYS_OF_FILES: [&str; 5] =
    ["key_generator", "value_generator", "session", "value_generator_blob_file", "trace"];

/// The agents of a run.
#[derive(Debug, Clone, Default)]
pub struct AgentPlan {
    /// Addresses of the agents. An agent's position in the list is the index of its share.
    pub addresses: Vec<Target>,
    /// How the agents and this process authenticate each other.
    pub security: LinkSecurity,
    /// Names and texts of the configuration files.
    pub texts: Vec<(String, String)>,
    /// Servers of the command line, which replace those of the configuration.
    pub targets: Vec<String>,
}

/// A file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// The name as written in the configuration.
    pub(crate) written: String,
    /// The bytes of the file.
    pub(crate) content: Vec<u8>,
}

/// Parses the address of an agent: `host`, or `host:port`.
///
/// # Errors
///
/// When the text has neither form.
pub(crate) fn agent_address(text: &str) -> Result<Target, ConfigError> {
    let has_no_port = !text.contains(':') || text.ends_with(']');
    match has_no_port {
        true => Target::parse(&format!("{text}:{DEFAULT_PORT}")),
        false => Target::parse(text),
    }
}

/// Reads `agents`, or the nodes of `remote_nodes` if `distribute_work` is set.
///
/// # Errors
///
/// When the value of a key does not have the form that the key requires.
pub(super) fn read_agents(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<AgentPlan>, ConfigError> {
    let named = settings.read("agents", Vec::new(), AGENTS_EXPECTED, |term| {
        let texts: Option<Vec<String>> = term.as_list()?.iter().map(Term::as_text).collect();
        texts?.iter().map(|text| agent_address(text).ok()).collect()
    })?;
    let nodes = settings.read("remote_nodes", Vec::new(), NODES_EXPECTED, |term| {
        let host = |node: &Term| {
            let host = node.as_tuple().filter(|parts| parts.len() == 2)?.first()?;
            let host = host.as_atom().map(ToOwned::to_owned).or_else(|| host.as_text())?;
            agent_address(&host).ok()
        };
        term.as_list()?.iter().map(host).collect::<Option<Vec<Target>>>()
    })?;
    let is_distributed = settings.boolean("distribute_work", false)?;
    let addresses = match named.is_empty() {
        false => named,
        true if is_distributed => nodes,
        true => Vec::new(),
    };
    if is_distributed && addresses.is_empty() {
        let place = settings.place("distribute_work");
        warnings.push(format!(
            "{place}distribute_work has no remote_nodes and no agents: all workers run in this process"
        ));
    }
    Ok((!addresses.is_empty()).then(|| AgentPlan { addresses, ..AgentPlan::default() }))
}

impl Config {
    /// Checks that agents can share the run.
    ///
    /// # Errors
    ///
    /// When there are fewer workers than agents, an address occurs twice, or the run must stay in one
    /// process.
    pub(crate) fn check_agents(&self) -> Result<(), ConfigError> {
        let Some(plan) = &self.agents else { return Ok(()) };
        let refused = |reason: &str| Err(ConfigError::Agents(reason.to_owned()));
        let count = plan.addresses.len();
        let distinct: BTreeSet<String> = plan.addresses.iter().map(Target::to_string).collect();
        if distinct.len() < count {
            return refused("an agent is named twice; name each once");
        }
        if (self.worker_count as usize) < count {
            let workers = self.worker_count;
            return refused(&format!(
                "{workers} workers cannot be split over {count} agents; raise concurrent, or name \
                 fewer agents"
            ));
        }
        if self.verify.is_some() {
            return refused(
                "a verified run keeps its written keys in one process; remove verify, or the agents",
            );
        }
        if self.inserted_keys().is_some() {
            return refused(
                "operations that insert number their keys in one process; remove them, or the agents",
            );
        }
        let keys = [Some(&self.key_generator), self.value_generator.keys()];
        if keys.into_iter().flatten().any(|keys| keys.reads_lines()) {
            return refused(
                "each line of a file is given to one worker of one process; take another generator, or \
                 remove the agents",
            );
        }
        Ok(())
    }

    /// The files that the configuration refers to, with their bytes.
    ///
    /// # Errors
    ///
    /// When a file can't be read, or the files together are too large to be sent.
    pub(crate) fn named_files(&self) -> Result<Vec<NamedFile>, LinkError> {
        let mut opened: BTreeSet<PathBuf> = self.script_paths.iter().cloned().collect();
        opened.extend(self.source.file.iter().cloned());
        opened.extend(self.replay.iter().map(|replay| replay.path.clone()));
        let mut files: Vec<NamedFile> = Vec::new();
        let mut unnamed = opened.clone();
        let mut bytes = 0;
        for (key, written) in self.texts_of_files() {
            let base = super::scripts::base_of(&self.source_dir(), &self.settings, key);
            let candidates = [PathBuf::from(&written), base.join(&written)];
            let Some(path) = candidates.into_iter().find(|path| opened.contains(path)) else {
                continue;
            };
            unnamed.remove(&path);
            if files.iter().any(|file| file.written == written) {
                continue;
            }
            let fault = |error| LinkError::File { path: path.clone(), error };
            bytes += std::fs::metadata(&path).map_err(fault)?.len();
            check_files_size(bytes)?;
            let content = std::fs::read(&path).map_err(fault)?;
            files.push(NamedFile { written, content });
        }
        match unnamed.pop_first() {
            Some(path) => Err(LinkError::Unnamed { path }),
            None => Ok(files),
        }
    }

    fn source_dir(&self) -> String {
        self.settings.text("source_dir", "").unwrap_or_default()
    }

    /// Every text below the keys that may name files, with the key.
    fn texts_of_files(&self) -> Vec<(&'static str, String)> {
        let mut texts = Vec::new();
        for key in KEYS_OF_FILES {
            if let Some(term) = self.settings.get(key) {
                for_each_text(term, &mut |text| texts.push((key, text)));
            }
        }
        texts
    }

    /// The order that an agent is sent for its share of the run.
    pub(crate) fn order(&self, plan: &AgentPlan, share: Share, files: &[NamedFile]) -> RunOrder {
        let nanos = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        RunOrder {
            share: share.index(),
            shares: share.count(),
            texts: plan.texts.clone(),
            files: files.iter().map(|file| file.written.clone()).collect(),
            seed: self.seed.0,
            length_ns: self.length.bound().map(nanos),
            warmup_ns: nanos(self.warmup),
            rate_per_s: match self.pacing {
                Pacing::Open { rate_per_s, .. } => Some(rate_per_s),
                Pacing::Max | Pacing::Rate(_) | Pacing::Trace(_) => None,
            },
            targets: plan.targets.clone(),
        }
    }

    /// The configuration of an order. `paths` holds the local paths of the order's files, in the same
    /// order.
    ///
    /// # Errors
    ///
    /// When the configuration can't be run.
    pub(crate) fn of_order(order: &RunOrder, paths: &[PathBuf]) -> Result<Self, ConfigError> {
        let mut settings = Settings::default();
        for (name, text) in &order.texts {
            settings.add(Path::new(name), text.as_bytes())?;
        }
        let places: Vec<(String, String)> = (order.files.iter().cloned())
            .zip(paths.iter().map(|path| path.display().to_string()))
            .collect();
        settings.replace_texts(&KEYS_OF_FILES, &places);
        let mut config = Self::from_settings(settings)?;
        config.agents = None;
        config.load_scripts()?;
        config.open_files()?;
        config.share = Share::new(order.share, order.shares)
            .ok_or_else(|| ConfigError::Agents("there is no such share".to_owned()))?;
        config.seed = Seed(order.seed);
        config.warmup = Duration::from_nanos(order.warmup_ns);
        config.length = match order.length_ns {
            Some(ns) => RunLength::For(Duration::from_nanos(ns)),
            None => RunLength::Unlimited,
        };
        if let Some(rate_per_s) = order.rate_per_s.filter(|rate| rate.is_finite() && *rate > 0.0) {
            let arrivals = match config.pacing {
                Pacing::Open { arrivals, .. } => arrivals,
                Pacing::Max | Pacing::Rate(_) | Pacing::Trace(_) => Arrivals::Poisson,
            };
            config.pacing = Pacing::Open { rate_per_s, arrivals };
        }
        for target in &order.targets {
            config.target_overrides.push(TargetOverride::parse(target)?);
        }
        let own = config.share.workers(config.worker_count).count();
        config.thread_count =
            config.thread_count.min(u32::try_from(own).unwrap_or(u32::MAX)).max(1);
        Ok(config)
    }
}

/// Calls `take` with each text in a term.
fn for_each_text(term: &Term, take: &mut impl FnMut(String)) {
    if let Some(text) = term.as_text() {
        take(text);
    } else if let Some(parts) = term.as_tuple() {
        parts.iter().for_each(|part| for_each_text(part, take));
    } else if let Some(parts) = term.as_list() {
        parts.iter().for_each(|part| for_each_text(part, take));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigText;

    fn config(text: &str) -> Config {
        Config::of_text(ConfigText { name: "test.config", text }).expect(text)
    }

    fn addresses(text: &str) -> Vec<String> {
        let agents = config(text).agents.expect("agents");
        agents.addresses.iter().map(Target::to_string).collect()
    }

    #[test]
    fn agents_are_named_by_host_and_port_or_as_nodes_of_basho_bench() {
        assert_eq!(
            addresses("{agents, [\"a\", \"b:9\", \"[::1]\"]}."),
            ["a:8077", "b:9", "[::1]:8077"]
        );
        let nodes = "{remote_nodes, [{'10.0.0.1', 'one'}, {\"b\", two}]}.";
        assert_eq!(
            addresses(&format!("{nodes} {{distribute_work, true}}.")),
            ["10.0.0.1:8077", "b:8077"]
        );
        assert!(config(nodes).agents.is_none(), "nodes have no work unless it is distributed");
    }

    #[test]
    fn a_run_that_belongs_in_one_process_is_refused() {
        let refusal = |text: &str| {
            let config = config(&format!("{{agents, [\"a\", \"b\"]}}. {text}"));
            config.check_agents().err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refusal("{concurrent, 2}."), "");
        assert!(refusal("{concurrent, 1}.").contains("1 workers cannot be split over 2 agents"));
        assert!(refusal("{agents, [\"a\", \"a:8077\"]}.").contains("named twice"));
        assert!(refusal("{verify, true}. {driver, http_raw}.").contains("remove verify"));
        assert!(refusal("{operations, [{{insert, put}, 1}]}.").contains("number their keys"));
        assert!(refusal("{key_generator, {file_line_bin, \"f\"}}.").contains("each line"));
    }

    #[test]
    fn an_order_is_the_run_with_what_the_command_line_says() {
        let text = "{mode, {open_rate, 100, poisson}}. {concurrent, 7}. {agents, [\"a\", \"b\"]}.
                    {value_generator_blob_file, \"blob\"}. {value_generator, {fixed_bin, 4}}.";
        let mut led = config(text);
        let plan = AgentPlan {
            texts: vec![("test.config".to_owned(), text.to_owned())],
            targets: vec!["h:1".to_owned()],
            ..AgentPlan::default()
        };
        led.seed = Seed([9, 8, 7]);
        led.length = RunLength::For(Duration::from_millis(1500));
        led.pacing = Pacing::Open { rate_per_s: 250.0, arrivals: Arrivals::Poisson };
        let share = Share::new(1, 2).expect("a share");
        let blob = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(blob.path(), "bytes").expect("a file with bytes");
        let file = NamedFile { written: "blob".to_owned(), content: b"bytes".to_vec() };
        let order = led.order(&plan, share, &[file]);
        let ordered = Config::of_order(&order, &[blob.path().to_owned()]).expect("a configuration");
        assert_eq!((ordered.share, ordered.seed, ordered.length), (share, led.seed, led.length));
        assert_eq!((ordered.pacing, ordered.worker_count), (led.pacing, 7));
        assert_eq!(
            ordered.source.file.as_deref(),
            Some(blob.path()),
            "the file that was sent is read"
        );
        assert_eq!(ordered.overrides(None).len(), 1);
        assert!(ordered.agents.is_none() && ordered.thread_count <= 3);
    }

    #[test]
    fn a_path_that_is_a_list_of_code_points_is_replaced_by_the_file_that_was_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let [local, sent] = ["local", "sent"].map(|name| folder.path().join(name));
        std::fs::write(&local, "bytes").expect("a file");
        std::fs::write(&sent, "bytes").expect("a file");
        let codes: Vec<String> =
            local.display().to_string().chars().map(|c| u32::from(c).to_string()).collect();
        let text = format!("{{value_generator_blob_file, [{}]}}.", codes.join(", "));
        let led = config(&text);
        assert_eq!(led.source.file.as_deref(), Some(local.as_path()));
        let files = led.named_files().expect("the file");
        let texts = vec![("test.config".to_owned(), text)];
        let plan = AgentPlan { texts, ..AgentPlan::default() };
        let order = led.order(&plan, Share::WHOLE, &files);
        let ordered =
            Config::of_order(&order, std::slice::from_ref(&sent)).expect("a configuration");
        assert_eq!(ordered.source.file, Some(sent));
    }
}
