//! Changes of one state in a few large pieces of memory: what workers seal, what is sorted and written, and what is read
//! until it is in the store. A million changes are a handful of allocations.

use std::cmp::Ordering;

use bytes::Bytes;

use super::{DeltaEntry, DeltaError, StateDelta, StateId, key_group};

/// Bytes after which a piece is closed; an entry lies in one piece whole.
const PIECE_BYTES: usize = 1 << 20;

/// Longest key and longest value, in bytes: what a block of a delta file can hold.
pub(super) const ENTRY_BYTES_MAX: usize = 1 << 29;

/// Where one change lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The key's first bytes as a number: decides nearly every comparison without a look at the key.
    prefix: u64,
    piece: u32,
    at: u32,
    key_bytes: u32,
    /// [`DELETED`] for a delete. The value lies behind the key.
    value_bytes: u32,
}

const DELETED: u32 = u32::MAX;

/// Changes of one state by one worker, encoded, each key at most once, in any order.
#[derive(Clone, Debug)]
pub struct SealedState {
    pub(super) state: StateId,
    pub(super) changes: Changes,
    /// Whoever made it says that its keys ascend; checked, not believed.
    pub(super) ascending: bool,
}

impl SealedState {
    /// The state.
    #[must_use]
    pub fn state(&self) -> &StateId {
        &self.state
    }

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.len() == 0
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.bytes
    }

    /// The changes, as they were written.
    pub fn entries(&self) -> impl Iterator<Item = DeltaEntry> + '_ {
        self.changes.iter()
    }
}

impl PartialEq for SealedState {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state && self.changes == other.changes
    }
}

impl Eq for SealedState {}

impl From<StateDelta> for SealedState {
    fn from(StateDelta { state, entries }: StateDelta) -> Self {
        let mut writer = SealedStateWriter::new(state, entries.len());
        for (key, value) in &entries {
            match value {
                Some(value) => writer.put(&[key]).extend_from_slice(value),
                None => writer.delete(&[key]),
            }
        }
        writer.ascending().sealed().0
    }
}

/// Collects the changes of one state.
#[derive(Debug)]
pub struct SealedStateWriter {
    state: StateId,
    changes: Changes,
    piece: Vec<u8>,
    /// The last change, whose value is being appended to `piece`.
    open: Option<Place>,
    ascending: bool,
    too_long: bool,
}

impl SealedStateWriter {
    /// For about `entries` changes of `state`.
    #[must_use]
    pub fn new(state: StateId, entries: usize) -> Self {
        let changes = Changes { places: Vec::with_capacity(entries), ..Changes::default() };
        let piece = Vec::new();
        Self { state, changes, piece, open: None, ascending: false, too_long: false }
    }

    /// Promises that keys come in ascending order.
    #[must_use]
    pub fn ascending(mut self) -> Self {
        self.ascending = true;
        self
    }

    /// Begins a change whose key is the given parts behind each other. The new value is what is appended to the vector
    /// given back, until the next call here.
    pub fn put(&mut self, key: &[&[u8]]) -> &mut Vec<u8> {
        self.begin(key);
        &mut self.piece
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[&[u8]]) {
        self.begin(key);
        if let Some(mut place) = self.open.take() {
            place.value_bytes = DELETED;
            self.changes.add(place);
        }
    }

    /// Number of changes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len() + usize::from(self.open.is_some())
    }

    /// Whether there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values so far, and of the index.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.bytes
    }

    /// All changes.
    ///
    /// # Errors
    ///
    /// [`DeltaError::TooLong`] if a key or a value has more than 512 MiB.
    pub fn finish(self) -> Result<SealedState, DeltaError> {
        let (sealed, too_long) = self.sealed();
        if too_long { Err(DeltaError::TooLong { state: sealed.state }) } else { Ok(sealed) }
    }

    fn begin(&mut self, key: &[&[u8]]) {
        self.close_entry();
        if self.piece.len() >= PIECE_BYTES {
            let next = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
            self.changes.close_piece(std::mem::replace(&mut self.piece, next));
        }
        let at = self.piece.len();
        for part in key {
            self.piece.extend_from_slice(part);
        }
        let key = self.piece.get(at..).unwrap_or_default();
        self.too_long |= key.len() > ENTRY_BYTES_MAX;
        self.open = Some(Place {
            prefix: prefix(key),
            piece: number(self.changes.pieces.len()),
            at: number(at),
            key_bytes: number(key.len()),
            value_bytes: 0,
        });
    }

    fn close_entry(&mut self) {
        if let Some(mut place) = self.open.take() {
            let value = self.piece.len() - place.value_at();
            self.too_long |= value > ENTRY_BYTES_MAX;
            place.value_bytes = number(value);
            self.changes.add(place);
        }
    }

    /// All changes, and whether one of them is too long.
    fn sealed(mut self) -> (SealedState, bool) {
        self.close_entry();
        let Self { state, mut changes, piece, ascending, too_long, .. } = self;
        changes.close_piece(piece);
        (SealedState { state, changes, ascending }, too_long)
    }
}

/// Lengths are bounded far below by [`ENTRY_BYTES_MAX`]; what is beyond it was noted before.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(DELETED - 1)
}

impl Place {
    fn value_at(&self) -> usize {
        self.at as usize + self.key_bytes as usize
    }
}

/// Entries of one state. Strictly ascending wherever they are part of a [`FrozenDelta`](super::FrozenDelta).
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pieces: Vec<Bytes>,
    places: Vec<Place>,
    bytes: usize,
}

impl Changes {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The key at `index`; empty beyond the end.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.places.get(index).map_or(&[], |place| self.key_of(place))
    }

    /// The new value at `index`; `None` for a delete.
    pub(crate) fn value(&self, index: usize) -> Option<&[u8]> {
        let place = self.places.get(index)?;
        if place.value_bytes == DELETED {
            return None;
        }
        let at = place.value_at();
        self.piece(place).get(at..at + place.value_bytes as usize)
    }

    /// Key and value at `index` as slices of what is held here.
    pub(crate) fn entry(&self, index: usize) -> DeltaEntry {
        let Some(place) = self.places.get(index) else { return (Bytes::new(), None) };
        let Some(piece) = self.pieces.get(place.piece as usize) else {
            return (Bytes::new(), None);
        };
        let value_at = place.value_at();
        let key = piece.slice(place.at as usize..value_at);
        let value = (place.value_bytes != DELETED)
            .then(|| piece.slice(value_at..value_at + place.value_bytes as usize));
        (key, value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = DeltaEntry> + '_ {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// Where `key` is, if keys ascend.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let wanted = prefix(key);
        let compare =
            |place: &Place| place.prefix.cmp(&wanted).then_with(|| self.key_of(place).cmp(key));
        self.places.binary_search_by(compare).ok()
    }

    /// The first index whose key is not below `key`, if keys ascend.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let wanted = prefix(key);
        self.places.partition_point(|place| {
            place.prefix < wanted || (place.prefix == wanted && self.key_of(place) < key)
        })
    }

    /// Moves the entries of `other` behind those here.
    pub(super) fn append(&mut self, other: Self) {
        if self.places.is_empty() {
            *self = other;
            return;
        }
        let pieces = number(self.pieces.len());
        self.pieces.extend(other.pieces);
        let moved =
            other.places.into_iter().map(|place| Place { piece: place.piece + pieces, ..place });
        self.places.extend(moved);
        self.bytes += other.bytes;
    }

    /// Sorts by key.
    pub(super) fn sort(&mut self) {
        let Self { pieces, places, .. } = self;
        let key = |place: &Place| key_in(pieces, place);
        let compare = |one: &Place, other: &Place| {
            one.prefix.cmp(&other.prefix).then_with(|| key(one).cmp(key(other)))
        };
        places.sort_unstable_by(compare);
    }

    /// How two neighbours are not in order: keys alike, or the second smaller.
    pub(super) fn disorder(&self) -> Option<Ordering> {
        let order = |pair: &[Place]| match pair {
            [one, other] => {
                one.prefix.cmp(&other.prefix).then_with(|| self.key_of(one).cmp(self.key_of(other)))
            }
            _ => Ordering::Less,
        };
        self.places.windows(2).map(order).find(|order| *order != Ordering::Less)
    }

    /// Whether every key begins with a valid key group.
    pub(super) fn have_key_groups(&self) -> bool {
        // The key group is the prefix's first two bytes, if the key has as many.
        self.places
            .iter()
            .all(|place| place.key_bytes >= 2 && key_group(&place.prefix.to_be_bytes()).is_some())
    }

    pub(super) fn first_key(&self) -> &[u8] {
        self.key(0)
    }

    fn add(&mut self, place: Place) {
        let value = if place.value_bytes == DELETED { 0 } else { place.value_bytes as usize };
        self.bytes += place.key_bytes as usize + value + size_of::<Place>();
        self.places.push(place);
    }

    fn close_piece(&mut self, piece: Vec<u8>) {
        self.pieces.push(piece.into());
    }

    fn key_of(&self, place: &Place) -> &[u8] {
        key_in(&self.pieces, place)
    }

    fn piece(&self, place: &Place) -> &[u8] {
        self.pieces.get(place.piece as usize).map_or(&[], |piece| piece)
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Changes {}

fn key_in<'a>(pieces: &'a [Bytes], place: &Place) -> &'a [u8] {
    let piece: &[u8] = pieces.get(place.piece as usize).map_or(&[], |piece| piece);
    piece.get(place.at as usize..place.value_at()).unwrap_or_default()
}

/// The first eight bytes as a number, zeros for those that are missing: orders keys as their bytes do, with ties.
fn prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}
