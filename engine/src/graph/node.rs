//! The nodes of a job: compile-time builders that attach themselves to whatever comes downstream.

use std::sync::Arc;

use super::{BuildContext, Connectors};
use crate::error::OperatorError;
use crate::operator::Collector;
use millstream_protocol::records::RecordView;

/// A node that produces owned elements. Like an iterator adaptor it knows its upstream by type; unlike one it is built from
/// the sink towards the source, once per worker, so that each worker owns a chain fused into one function.
pub trait Stream: Send + 'static {
    /// What it produces.
    type Item: Send + 'static;

    /// Builds the part of a worker's chains that ends in `downstream`.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a source or sink cannot be opened.
    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<Self::Item> + 'static;

    /// Sets the uid of the last operator.
    fn set_uid(&mut self, uid: &str);

    /// Appends the operators from the source to this one.
    fn describe(&self, operators: &mut Vec<OperatorDescription>);

    /// Appends the sources.
    fn connectors(&self, connectors: &mut Connectors);
}

/// A node that produces borrowed records.
pub trait RawStreamNode: Send + 'static {
    /// As [`Stream::attach`].
    ///
    /// # Errors
    ///
    /// As [`Stream::attach`].
    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: for<'r> Collector<RecordView<'r>> + 'static;

    /// As [`Stream::set_uid`].
    fn set_uid(&mut self, uid: &str);

    /// As [`Stream::describe`].
    fn describe(&self, operators: &mut Vec<OperatorDescription>);

    /// As [`Stream::connectors`].
    fn connectors(&self, connectors: &mut Connectors);
}

/// One operator of a job, as its fingerprint sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorDescription {
    /// The uid given by `.uid("...")`, else kind and position in the program.
    pub uid: Arc<str>,
    /// What kind of operator it is.
    pub kind: &'static str,
    /// Its keyed states.
    pub states: Vec<StateDescription>,
}

/// One keyed state of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescription {
    /// The state's name within the operator.
    pub name: Arc<str>,
    /// Key, value and layout, in a stable spelling.
    pub schema: String,
}

/// Uid and kind of a node.
#[derive(Clone, Debug)]
pub(crate) struct OperatorInfo {
    pub(crate) uid: Arc<str>,
    pub(crate) kind: &'static str,
    /// Position in the program, unique in the job; also names the exchange in front of the operator.
    pub(crate) position: usize,
}

impl OperatorInfo {
    pub(crate) fn new(kind: &'static str, position: usize) -> Self {
        Self { uid: format!("{kind}-{position}").into(), kind, position }
    }

    pub(crate) fn set_uid(&mut self, uid: &str) {
        self.uid = uid.into();
    }

    pub(crate) fn describe(&self, states: Vec<StateDescription>) -> OperatorDescription {
        OperatorDescription { uid: Arc::clone(&self.uid), kind: self.kind, states }
    }
}
