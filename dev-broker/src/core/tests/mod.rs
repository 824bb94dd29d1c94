//! The cluster under scripted requests and moved time; no sockets.

mod fetching;
mod producing;
mod scripted_client;
mod transactions;

use scripted_client::TestCluster;
