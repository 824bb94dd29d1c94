//! One task per client that owns the sockets, the timers and the machines. Handles talk to it through commands.

mod command;
mod consumers;
mod event_loop;
mod producers;

pub(crate) use command::{Command, ConsumerAction, RequestCommand};
pub(crate) use event_loop::{ClusterView, Driver};
