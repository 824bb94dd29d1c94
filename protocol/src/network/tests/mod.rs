//! The machine against a scripted cluster: no sockets, time is moved by hand.

mod authentication;
mod bootstrap;
mod coordinators;
mod metadata;
mod requests;
mod script;
