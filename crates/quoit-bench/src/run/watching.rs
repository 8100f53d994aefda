//! Tasks that read the statistics of servers during a run.

use super::background_tasks::Task;
use super::control::{Phase, Release, ending, released};
use crate::config::Target;
use crate::http::{Connection, HttpRequest};
use crate::login::HttpSecurity;
use crate::view::{ServerBoard, ServerLine};
use crate::watch::{COLUMNS, ServerFigures, ServerRow, ServerTable, between, of_metrics, of_stats};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at};

/// Interval at which a server is polled.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of figures of a server that the view shows.
const VIEWED_FIGURES_MAX: usize = 4;
/// Time limit of a poll. A server that takes longer has a gap in its table.
const PATIENCE: Duration = Duration::from_millis(900);

/// One task for each watched server.
///
/// # Errors
///
/// When the table can't be created, or the security settings can't be read.
pub(super) fn tasks(
    servers: &[Target],
    directory: &Path,
    phases: &watch::Receiver<Phase>,
    board: &ServerBoard,
) -> io::Result<Vec<Task>> {
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let table = Arc::new(Mutex::new(ServerTable::create(directory)?));
    let security = HttpSecurity::from_environment().map_err(io::Error::other)?;
    let task = |server: &Target| -> Task {
        let told = FigureSinks { table: Arc::clone(&table), board: board.clone() };
        Box::pin(watch_one(server.clone(), security.clone(), told, phases.clone()))
    };
    Ok(servers.iter().map(task).collect())
}

/// Watches one server until the run ends. Returns the reason if the server was not watched.
async fn watch_one(
    server: Target,
    security: Option<Arc<HttpSecurity>>,
    told: FigureSinks,
    mut phases: watch::Receiver<Phase>,
) -> Option<String> {
    let release = released(&mut phases).await?;
    let mut watched = Watched { server, security, connection: None, before: None };
    let mut fault = None;
    let mut has_answered = false;
    let watching = async {
        let mut ticks = interval_at(release.measured_from.into(), PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            match watched.look(&release).await {
                Ok(row) => {
                    has_answered = true;
                    if let Some(fault) = row.and_then(|row| told.tell(&row).err()) {
                        return Some(format!("servers.csv can't be written: {fault}"));
                    }
                }
                Err(failed) => fault = Some(failed),
            }
        }
    };
    let ended = tokio::select! {
        ended = watching => ended,
        () = ending(&mut phases) => None,
    };
    let silent = fault.filter(|_| !has_answered);
    ended.or_else(|| Some(format!("{} was not watched: {}", watched.server, silent?)))
}

/// Destinations of the figures: the table, and the board of the view.
struct FigureSinks {
    table: Arc<Mutex<ServerTable>>,
    board: ServerBoard,
}

impl FigureSinks {
    fn tell(&self, row: &ServerRow) -> io::Result<()> {
        self.board.put(line_of(row));
        self.table.lock().unwrap_or_else(PoisonError::into_inner).append(row)
    }
}

/// A row in the form of the view, without figures that the server does not report.
fn line_of(row: &ServerRow) -> ServerLine {
    let told = COLUMNS.iter().zip(row.figures).filter_map(|(column, value)| Some((column, value?)));
    let figures = told
        .take(VIEWED_FIGURES_MAX)
        .map(|(column, value)| (column.name.to_owned(), format!("{:.1}", value / column.unit)));
    ServerLine { server: row.server.clone(), figures: figures.collect() }
}

/// A server that is watched.
struct Watched {
    server: Target,
    security: Option<Arc<HttpSecurity>>,
    connection: Option<Connection>,
    /// Time and figures of the last poll that was answered.
    before: Option<(Instant, ServerFigures)>,
}

impl Watched {
    /// Polls the server once. Rates need two polls, so the first poll gives no row. After a failure the
    /// connection is discarded, and the next row covers all the time since the last answer.
    async fn look(&mut self, release: &Release) -> Result<Option<ServerRow>, String> {
        let connection = self.connection.take();
        let asked_at = Instant::now();
        let mut connection = match connection {
            Some(connection) => connection,
            None => {
                let opening = Connection::open(&self.server, PATIENCE, self.security.as_ref());
                let mut connection = opening.await.map_err(|fault| fault.to_string())?;
                connection.keep_bodies();
                connection
            }
        };
        let figures = ask(&mut connection, &self.server).await?;
        let before = self.before.replace((asked_at, figures));
        self.connection = Some(connection).filter(Connection::is_reusable);
        Ok(before.map(|(before_at, before)| {
            let span_s = (asked_at - before_at).as_secs_f64();
            ServerRow {
                elapsed_s: asked_at.saturating_duration_since(release.measured_from).as_secs_f64(),
                span_s: Some(span_s),
                server: self.server.to_string(),
                figures: between(&before, &figures, span_s),
            }
        }))
    }
}

/// Reads the metrics of a server, or its statistics if it has no metrics, as Riak.
async fn ask(connection: &mut Connection, server: &Target) -> Result<ServerFigures, String> {
    let mut get = async |path: &str, accept: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nAccept: {accept}\r\n\r\n");
        let request = HttpRequest { head: head.as_bytes(), body: b"" };
        let answer = connection.exchange(request).await;
        let status = answer.map_err(|fault| format!("GET {path}: {fault}"))?.status;
        Ok::<_, String>((status, connection.content().body.to_vec()))
    };
    let (status, body) = get("/metrics", "text/plain").await?;
    if status == 200 {
        return Ok(of_metrics(&String::from_utf8_lossy(&body)));
    }
    let (stats_status, body) = get("/stats", "application/json").await?;
    if stats_status != 200 {
        return Err(format!("GET /metrics gave {status}, and GET /stats {stats_status}"));
    }
    let document = serde_json::from_slice(&body).map_err(|fault| format!("GET /stats: {fault}"))?;
    Ok(of_stats(&document))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::CPU;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Answers a request on each of three connections: with 1 s of processor time, not at all, with 4 s.
    async fn serve(listener: TcpListener) {
        for seconds in [Some(1), None, Some(4)] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.expect("a request");
            assert!(read > 0);
            let Some(seconds) = seconds else { continue };
            let body = format!("quoit_cpu_seconds_total {seconds}\n");
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}", body.len());
            let answer = format!("{head}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.expect("an answer is read");
        }
    }

    #[tokio::test]
    async fn the_row_after_a_failed_poll_covers_the_time_since_the_last_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serving = tokio::spawn(serve(listener));
        let server = Target::parse(&address).expect("a target");
        let mut watched = Watched { server, security: None, connection: None, before: None };
        let now = Instant::now();
        let release = Release { at: now, measured_from: now, deadline: None };
        assert_eq!(watched.look(&release).await, Ok(None));
        assert!(watched.look(&release).await.is_err());
        let row = watched.look(&release).await.expect("figures").expect("a row");
        let covered_s = row.span_s.expect("a span");
        assert!(covered_s <= row.elapsed_s, "{row:?}");
        let used_s = row.figures[CPU].expect("a rate") * covered_s;
        assert!((used_s - 3.0).abs() < 1e-6, "{row:?}");
        serving.await.expect("all requests were answered");
    }
}
