//! The steps of a move, with the commands of each.

use super::PlanArgs;
use super::facts::Facts;
use crate::names::bucket_name;
use serde_json::{Value, json};

/// One step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) title: String,
    /// Lines for riak.conf, on every node of Riak.
    pub(super) riak_conf: Vec<String>,
    /// Lines for the configuration of every node of the cluster.
    pub(super) quoit_conf: Vec<String>,
    /// Commands to run on one machine of the cluster.
    pub(super) commands: Vec<String>,
    /// Commands to run on every node of Riak.
    pub(super) riak_commands: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Step {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn title(self, title: &str) -> Self {
        Self { title: title.to_owned(), ..self }
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "step": self.name,
            "title": self.title,
            "riak_conf": self.riak_conf,
            "riak_commands": self.riak_commands,
            "quoit_conf": self.quoit_conf,
            "commands": self.commands,
            "notes": self.notes,
        })
    }
}

/// Quotes a word of a command line if a shell would interpret it.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:%@=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The inputs of all steps.
struct StepBuilder<'a> {
    args: &'a PlanArgs,
    facts: &'a Facts,
    is_both_ways: bool,
}

/// The steps in their order.
pub(super) fn steps(args: &PlanArgs, facts: &Facts, is_both_ways: bool) -> Vec<Step> {
    let making = StepBuilder { args, facts, is_both_ways };
    let mut steps = vec![making.types(), making.riak_conf()];
    if is_both_ways {
        steps.push(making.own_queue());
    }
    steps.extend([
        making.sink(),
        making.bootstrap(),
        making.full_sync(),
        making.compare("compare", 100),
        making.switch_over(),
        making.going_back(),
        making.end(),
    ]);
    steps.extend(making.reap());
    steps
}

impl StepBuilder<'_> {
    fn repl(&self, words: &str) -> String {
        format!("quoit repl --url {} {words}", word(&self.args.here))
    }

    fn peers(&self, side: &super::facts::SideFacts) -> String {
        let protocol = self.args.protocol.as_str();
        let addresses = match self.args.protocol {
            super::PeerProtocol::Pb => &side.pb,
            super::PeerProtocol::Http => &side.http,
        };
        let peers = addresses.iter().map(|address| format!("{address}:{protocol}"));
        peers.collect::<Vec<_>>().join("|")
    }

    fn types(&self) -> Step {
        let named: Vec<String> = self.facts.named_types().map(|name| word(name)).collect();
        let step = Step::new("types")
            .title("Create the bucket types in the cluster")
            .note("objects of a type that is not here wait in the sink, visibly, until it is");
        if named.is_empty() {
            return step.note("Riak reports data only in the type default");
        }
        step.command(format!(
            "quoit import types {} {} --to {} --create",
            word(&self.args.riak),
            named.join(" "),
            word(&self.args.here)
        ))
    }

    fn riak_conf(&self) -> Step {
        let queue = &self.args.queue;
        let before: Option<&str> = self
            .facts
            .confs
            .iter()
            .find_map(|(_, conf)| conf.get("replrtq_srcqueue"))
            .filter(|text| !text.split('|').any(|one| one.starts_with(&format!("{queue}:"))));
        let queues = match before {
            Some(before) => format!("{before}|{queue}:any"),
            None => format!("{queue}:any"),
        };
        let mut step = Step::new("riak").title("Have Riak queue what is written");
        step.riak_conf = vec![
            "replrtq_enablesrc = enabled".to_owned(),
            format!("replrtq_srcqueue = {queues}"),
            "tictacaae_active = active".to_owned(),
        ];
        if self.is_both_ways {
            step.riak_conf.extend([
                "replrtq_enablesink = enabled".to_owned(),
                format!("replrtq_sinkqueue = {}", self.args.back_queue),
                format!("replrtq_sinkpeers = {}", self.peers(&self.facts.here)),
            ]);
        }
        let restart = [
            "riak stop",
            "riak start",
            "riak admin wait-for-service riak_kv",
            "riak admin transfers",
        ];
        step.riak_commands = restart.map(str::to_owned).into();
        step.note("restart one node after the other, the next one when transfers shows nothing that waits")
    }

    fn own_queue(&self) -> Step {
        let add = self.repl(&format!("--all queue add {} any", word(&self.args.back_queue)));
        let title = "Have the cluster queue what is written, for the way back";
        let mut step = Step::new("queue").title(title).command(add);
        if !self.facts.here_queues {
            step.quoit_conf = vec!["replrtq_enablesrc = enabled".to_owned()];
            step = step.note("restart one node after the other, before the command");
        }
        step
    }

    fn sink(&self) -> Step {
        let peers = word(&self.peers(&self.facts.riak));
        Step::new("sink")
            .title("Have the cluster store what Riak queues")
            .command(self.repl(&format!("--all sink add {} {peers}", word(&self.args.queue))))
            .command(self.repl("status"))
            .note("a fault of a sink, such as a missing bucket type, is shown by status")
    }

    fn bootstrap(&self) -> Step {
        let mut line = format!(
            "quoit import bootstrap {} --riak-pb {} --queue {}",
            word(&self.args.riak),
            word(&self.args.riak_pb()),
            word(&self.args.queue)
        );
        if self.facts.folds_fault.is_some() {
            for name in self.facts.types.keys() {
                line = format!("{line} --type {}", word(name));
            }
        }
        Step::new("bootstrap").title("Bring over what Riak holds already").command(line).note(
            "it returns when all records are fetched; it may be run again, since records are merged",
        )
    }

    fn full_sync(&self) -> Step {
        let protocol = self.args.protocol;
        let peers = self.peers(&self.facts.riak);
        let peer = word(peers.split('|').next().unwrap_or_default());
        let mut step = Step::new("full-sync").title("Find what was missed meanwhile");
        for (here, riak) in self.facts.n_vals() {
            let mut line = format!(
                "fullsync set --peer {peer} --peer-queue {} --local-n-val {here} --remote-n-val {riak}",
                word(&self.args.queue)
            );
            if self.is_both_ways {
                line = format!("{line} --queue {}", word(&self.args.back_queue));
            }
            step = step.command(self.repl(&line)).command(self.repl("fullsync run all"));
        }
        if protocol == super::PeerProtocol::Http {
            step = step.note("names that are no UTF-8 are compared over Protocol Buffers alone");
        }
        if !self.is_both_ways {
            step = step.note(
                "nothing is sent to Riak: keys that only the cluster has are listed by the comparison",
            );
        }
        step.note(
            "a run compares the trees of one pair of n_vals and repairs some thousand records: repeat it \
             until it says in_sync. Between runs these settings keep it going: ttaaefs_scope = all, \
             ttaaefs_peerip, ttaaefs_peerport, ttaaefs_localnval, ttaaefs_remotenval",
        )
    }

    fn compare(&self, name: &'static str, samples: u32) -> Step {
        Step::new(name)
            .title("Compare both sides, bucket by bucket")
            .command(self.compare_line(samples))
    }

    fn compare_line(&self, samples: u32) -> String {
        format!(
            "quoit import compare {} {} --riak-pb {} --here-pb {} --samples {samples}",
            word(&self.args.riak),
            word(&self.args.here),
            word(&self.args.riak_pb()),
            word(&self.args.here_pb())
        )
    }

    fn switch_over(&self) -> Step {
        let step = Step::new("switch")
            .title("Switch the clients over")
            .note("clients that read first, then those that write");
        let step = match self.is_both_ways {
            true => step.note("both sides may be written to meanwhile: siblings come as from two clients"),
            false => step.note(
                "stop the clients that write, wait until promote says that all is across, then start them \
                 at the new addresses: what is written to Riak later still comes, what is written here \
                 never goes to Riak",
            ),
        };
        step.command(self.repl("promote")).command(self.compare_line(1000))
    }

    fn going_back(&self) -> Step {
        match self.is_both_ways {
            true => Step::new("back").title("Go back, if you have to")
                .command(self.repl(&format!("queue status {}", word(&self.args.back_queue))))
                .command(self.compare_line(1000))
                .note(
                    "point the clients to Riak again once nothing waits in the queue: Riak has everything \
                     that was written here",
                ),
            false => Step::new("back").title("Go back, if you have to")
                .command(self.compare_line(1000))
                .note(
                    "point the clients to Riak again: it lacks all writes to the cluster since the switch. \
                     The comparison lists the keys that only the cluster has",
                ),
        }
    }

    fn end(&self) -> Step {
        let mut step = Step::new("end")
            .title("End the replication, when no client uses Riak any more")
            .command(self.repl(&format!("--all sink remove {}", word(&self.args.queue))));
        if self.is_both_ways {
            step = step
                .command(self.repl(&format!("--all queue remove {}", word(&self.args.back_queue))));
        }
        step.riak_commands = vec!["riak stop".to_owned()];
        step
    }

    /// The step that reaps the kept tombstones, once no other side can bring their values back.
    fn reap(&self) -> Option<Step> {
        if self.facts.here_delete_mode != "keep" {
            return None;
        }
        let mut step = Step::new("reap").title("Remove the tombstones that were kept");
        for bucket in &self.facts.buckets {
            step = step.command(format!(
                "quoit admin --url {} fold reap-tombs {} --method local",
                word(&self.args.here),
                word(&bucket_name(bucket))
            ));
        }
        if self.facts.buckets.is_empty() {
            step = step.note(format!(
                "for each bucket: quoit admin --url {} fold reap-tombs TYPE/BUCKET --method local",
                word(&self.args.here)
            ));
        }
        Some(
            step.note(
                "then set delete_mode back in the configuration of every node, or leave it out",
            ),
        )
    }
}
