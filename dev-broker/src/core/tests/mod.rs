//! The cluster under scripted requests and moved time; no sockets.

mod fetching;
mod nodes;
mod producing;
mod read_committed_model;
mod scripted_client;
mod serving;
mod storing;
mod transactions;

use scripted_client::TestCluster;
