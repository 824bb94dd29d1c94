//! Tables for people: columns as wide as what is in them, two blanks between.

use unicode_width::UnicodeWidthStr;

/// A column: its heading, and on which side its cells stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Words.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::Left(heading) | Self::Right(heading) => heading,
        }
    }
}

/// Rows of cells under headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column. Names come from whoever made them: what would move a terminal's cursor is
    /// shown as a sign of it.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The text, each line ended.
    pub(crate) fn text(&self) -> String {
        let headings: Vec<String> =
            self.columns.iter().map(|column| column.heading().to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&headings).chain(&self.rows).collect();
        let width = |index: usize| {
            lines.iter().filter_map(|line| line.get(index)).map(|cell| cell.width()).max()
        };
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|index| width(index).unwrap_or(0)).collect();
        let mut text = String::new();
        for line in lines {
            let mut out = String::new();
            for ((cell, column), width) in line.iter().zip(&self.columns).zip(&widths) {
                let blanks = " ".repeat(width.saturating_sub(cell.width()));
                match column {
                    Column::Left(_) => out.extend([cell.as_str(), &blanks, "  "]),
                    Column::Right(_) => out.extend([&blanks, cell.as_str(), "  "]),
                }
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Without what a terminal would take for a command.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Column, Table};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            Table::new(&[Column::Left("TOPIC"), Column::Right("RECORDS"), Column::Left("NOTE")]);
        table.row(["a".to_owned(), "12".to_owned(), String::new()]);
        table.row(["längste".to_owned(), "1234567".to_owned(), "x\u{1b}[2J".to_owned()]);
        table.row(["日本".to_owned(), "0".to_owned(), "y".to_owned()]);
        let expected = "TOPIC    RECORDS  NOTE\n\
                        a             12\n\
                        längste  1234567  x\u{fffd}[2J\n\
                        日本           0  y\n";
        assert_eq!(table.text(), expected);
    }
}
