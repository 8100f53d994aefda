//! placeholder
use crate::context::ServerContext;
use crate::socket::StopSignal;
use std::sync::Arc;
/// x
pub async fn serve(_c: Arc<ServerContext>, _s: tokio::net::TcpStream, _g: Arc<StopSignal>) {}
