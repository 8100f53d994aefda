//! The servers of `quoit bench campaign`: clusters on this machine, started as `quoit dev-cluster` starts
//! them.

use crate::cluster::{ClusterSetup, ManagedCluster};
use anyhow::{Context, Result, bail};
use quoit_bench::campaign::{
    NodeAction, NodeAddresses, ServerFault, ServerPlan, ServerStarter, StartedServers,
};
use quoit_cli::api::segment;
use quoit_cli::target::Target;
use quoit_cli::{Answer, Api, value_at};
use quoit_process::StopRequest;
use serde_json::{Value, json};
use std::path::Path;
use tokio::runtime::Runtime;

/// Name of the queue that each of two linked clusters consumes from the other one.
const QUEUE: &str = "campaign";

/// Starts clusters of nodes of this program, or of another build of it.
#[derive(Debug)]
pub struct LocalServers;

impl ServerStarter for LocalServers {
    fn start(
        &self,
        plan: &ServerPlan,
        directory: &Path,
    ) -> Result<Box<dyn StartedServers>, ServerFault> {
        let servers = start(plan, directory).map_err(|error| fault(&error))?;
        Ok(Box::new(servers))
    }
}

/// Converts an error and its causes.
fn fault(error: &anyhow::Error) -> ServerFault {
    ServerFault(format!("{error:#}"))
}

/// Clusters, with the runtime that watches their processes.
struct LocalClusters {
    runtime: Runtime,
    clusters: Vec<ManagedCluster>,
}

fn start(plan: &ServerPlan, directory: &Path) -> Result<LocalClusters> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().context("starting the runtime")?;
    let mut clusters: Vec<ManagedCluster> = (1..=plan.cluster_count)
        .map(|number| ManagedCluster::new(place(plan, directory, number)))
        .collect();
    let started = runtime.block_on(async {
        let mut stop = StopRequest::listen()?;
        let starting = async {
            for cluster in &mut clusters {
                cluster.add(plan.node_count).await?;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            signal = stop.wait() => bail!("{signal} while the servers were starting"),
            started = starting => started,
        }
    });
    let mut started_clusters = LocalClusters { runtime, clusters };
    let prepared = started.and_then(|()| started_clusters.prepare(plan));
    if prepared.is_err() {
        started_clusters.stop();
    }
    prepared.map(|()| started_clusters)
}

/// Directory, settings and program of a cluster.
fn place(plan: &ServerPlan, directory: &Path, number: u16) -> ClusterSetup {
    let mut settings = plan.settings.clone();
    settings.extend(plan.engine.iter().map(|engine| format!("storage_backend={engine}")));
    if plan.is_linked {
        settings.push("replrtq_enablesrc=enabled".to_owned());
        settings.push(format!("replrtq_srcqueue={QUEUE}:any"));
    }
    let base_dir = directory.join(format!("cluster-{number}"));
    ClusterSetup { base_dir, settings, program: plan.program.clone() }
}

impl LocalClusters {
    /// Creates bucket types and links through the administration API.
    fn prepare(&self, plan: &ServerPlan) -> Result<()> {
        for cluster in &self.clusters {
            let api = api_of(cluster)?;
            for (name, data_type) in &plan.bucket_types {
                let path = format!("bucket-types/{}", segment(name));
                let properties = json!({ "props": { "datatype": data_type } });
                done(api.put(&path, &properties)?).with_context(|| format!("creating {name}"))?;
                done(api.post(&format!("{path}/activate"), None)?)
                    .with_context(|| format!("activating {name}"))?;
            }
        }
        if let ([one, other], true) = (self.clusters.as_slice(), plan.is_linked) {
            link(one, other)?;
            link(other, one)?;
        }
        Ok(())
    }
}

/// Makes all nodes of a cluster consume the queues of another cluster's nodes.
fn link(sink: &ManagedCluster, source: &ManagedCluster) -> Result<()> {
    let peers: Vec<String> = source.addresses().map(|(pb, _)| format!("{pb}:pb")).collect();
    let command = json!({ "command": "sink_add", "name": QUEUE, "peers": peers });
    let answer = done(api_of(sink)?.post("repl?all=true", Some(&command))?);
    let nodes = answer.context("linking two clusters")?;
    let faults = value_at(&nodes, "/nodes").as_object().into_iter().flatten();
    let fault = faults.filter_map(|(name, done)| Some((name, done["error"].as_str()?))).next();
    match fault {
        Some((name, fault)) => bail!("linking two clusters: {name}: {fault}"),
        None => Ok(()),
    }
}

/// The administration API of a cluster's first node.
fn api_of(cluster: &ManagedCluster) -> Result<Api> {
    let (_, http) = cluster.addresses().next().context("the cluster has no node")?;
    Ok(Api::of(vec![Target::of(http)]))
}

fn done(answer: Answer) -> Result<Value> {
    match answer {
        Answer::Done(document) => Ok(document),
        Answer::Refused { message, .. } => bail!("{message}"),
    }
}

impl StartedServers for LocalClusters {
    fn clusters(&self) -> Vec<Vec<NodeAddresses>> {
        let nodes = |cluster: &ManagedCluster| {
            let node = |(pb, http): (&str, &str)| NodeAddresses {
                pb: pb.to_owned(),
                http: http.to_owned(),
            };
            cluster.addresses().map(node).collect()
        };
        self.clusters.iter().map(nodes).collect()
    }

    fn act(&mut self, action: NodeAction) -> Result<(), ServerFault> {
        let Self { runtime, clusters } = self;
        let Some(cluster) = clusters.first_mut() else {
            return Err(ServerFault("the servers are stopped".to_owned()));
        };
        let acted = runtime.block_on(async {
            match action {
                NodeAction::Kill(number) => cluster.kill(number).await,
                NodeAction::Pause(number) => cluster.pause(number),
                NodeAction::Resume(number) => cluster.resume(number),
                NodeAction::Start(number) => cluster.start_again(number).await,
                NodeAction::Add(count) => cluster.add(count).await,
            }
        });
        acted.map_err(|error| fault(&error))
    }

    fn stop(&mut self) {
        let clusters = std::mem::take(&mut self.clusters);
        self.runtime.block_on(async {
            for cluster in clusters {
                cluster.stop().await;
            }
        });
    }
}
