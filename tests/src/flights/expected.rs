//! The expected answers, and the comparison.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::feed::data_folder;
use super::job::Query;

/// A record of the output, as another client than ours read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRecord {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Key.
    pub key: Option<String>,
    /// Value.
    pub value: Option<String>,
}

/// Rows of an expected file: column names and values.
#[derive(Debug)]
pub struct Expected {
    query: Query,
    rows: BTreeSet<BTreeMap<String, String>>,
}

impl Expected {
    /// The answer to `query` over the whole year.
    ///
    /// # Panics
    ///
    /// If the file can not be read.
    #[must_use]
    pub fn of_the_year(query: Query) -> Self {
        let file = match query {
            Query::Q1 => "q1_totals_by_carrier.csv",
            Query::Q2 => "q2_tumble_1h_by_origin.csv",
        };
        let text = std::fs::read_to_string(data_folder().join("expected").join(file));
        let text = text.expect("the expected answer");
        let mut lines = text.lines();
        let columns: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let row = |line: &str| {
            columns
                .iter()
                .zip(line.split(','))
                .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
                .collect()
        };
        Self { query, rows: lines.map(row).collect() }
    }

    /// The answer to q1 over some events, by a plain loop.
    ///
    /// # Panics
    ///
    /// If a line is not a flight event.
    #[must_use]
    pub fn totals_of(lines: &[String]) -> Self {
        let mut totals: BTreeMap<String, (u64, i64, i64)> = BTreeMap::new();
        for line in lines {
            let flight: Value = serde_json::from_str(line).expect("a flight event");
            let number = |name: &str| flight[name].as_i64().expect("a number");
            let carrier = flight["carrier"].as_str().expect("a carrier").to_owned();
            let (flights, miles, worst) = totals.entry(carrier).or_insert((0, 0, i64::MIN));
            *flights += 1;
            *miles += number("distance");
            *worst = number("arr_delay").max(*worst);
        }
        let row = |(carrier, (flights, miles, worst)): (String, (u64, i64, i64))| {
            BTreeMap::from([
                ("carrier".to_owned(), carrier),
                ("flights".to_owned(), flights.to_string()),
                ("miles".to_owned(), miles.to_string()),
                ("worst_arr_delay".to_owned(), worst.to_string()),
            ])
        };
        Self { query: Query::Q1, rows: totals.into_iter().map(row).collect() }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is wrong with `output`, if anything: the whole check of exactly-once.
    ///
    /// # Errors
    ///
    /// Counts and the first examples of what is lost, doubled or wrong.
    pub fn check(&self, output: &[OutputRecord], inputs: usize) -> Result<(), String> {
        let mut rows: Vec<(BTreeMap<String, String>, &OutputRecord)> = Vec::new();
        for record in output {
            rows.push((row_of(record)?, record));
        }
        match self.query {
            Query::Q1 => self.check_totals(&rows, inputs),
            Query::Q2 => self.check_windows(&rows),
        }
    }

    /// One record for each input; the n-th of a carrier counts n flights; the last one is the answer.
    fn check_totals(
        &self,
        rows: &[(BTreeMap<String, String>, &OutputRecord)],
        inputs: usize,
    ) -> Result<(), String> {
        let mut last: BTreeMap<String, (u64, BTreeMap<String, String>)> = BTreeMap::new();
        let mut wrong = Vec::new();
        let mut in_order: Vec<_> = rows.iter().collect();
        in_order.sort_by_key(|(_, record)| (record.partition, record.offset));
        for (row, record) in in_order {
            let carrier = row.get("carrier").cloned().unwrap_or_default();
            let flights: u64 = row.get("flights").and_then(|count| count.parse().ok()).unwrap_or(0);
            if record.key.as_deref() != Some(carrier.as_str()) {
                wrong.push(format!("{record:?} has another key than its carrier"));
            }
            let before = last.get(&carrier).map_or(0, |(flights, _)| *flights);
            if flights != before + 1 {
                wrong.push(format!("{record:?} follows {before} flights of {carrier}"));
            }
            last.insert(carrier, (flights, row.clone()));
        }
        let totals: BTreeSet<_> = last.into_values().map(|(_, row)| row).collect();
        let missing = self.rows.difference(&totals).count();
        if rows.len() == inputs && wrong.is_empty() && missing == 0 {
            return Ok(());
        }
        Err(format!(
            "{} records for {inputs} inputs, {} out of order, {missing} carriers with another total; {:?}",
            rows.len(),
            wrong.len(),
            wrong.iter().take(3).collect::<Vec<_>>()
        ))
    }

    /// Every window once, no other.
    fn check_windows(
        &self,
        rows: &[(BTreeMap<String, String>, &OutputRecord)],
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let (mut doubled, mut unexpected) = (Vec::new(), Vec::new());
        for (row, record) in rows {
            if !self.rows.contains(row) {
                unexpected.push(*record);
            } else if !seen.insert(row) {
                doubled.push(*record);
            }
        }
        let lost: Vec<_> = self.rows.iter().filter(|row| !seen.contains(row)).collect();
        if doubled.is_empty() && unexpected.is_empty() && lost.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} windows lost, {} doubled, {} wrong; lost {:?}, doubled {:?}, wrong {:?}",
            lost.len(),
            doubled.len(),
            unexpected.len(),
            lost.iter().take(3).collect::<Vec<_>>(),
            doubled.iter().take(3).collect::<Vec<_>>(),
            unexpected.iter().take(3).collect::<Vec<_>>()
        ))
    }
}

/// The fields of a record's JSON value as text.
fn row_of(record: &OutputRecord) -> Result<BTreeMap<String, String>, String> {
    let value = record.value.as_deref().ok_or_else(|| format!("{record:?} has no value"))?;
    let object: BTreeMap<String, Value> =
        serde_json::from_str(value).map_err(|error| format!("{record:?}: {error}"))?;
    Ok(object
        .into_iter()
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name, text)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(expected: &Expected) -> Vec<OutputRecord> {
        let numbers = ["window_start", "landings", "sum_arr_delay", "max_dep_delay"];
        expected
            .rows
            .iter()
            .zip(0..)
            .map(|(row, offset)| {
                let value: serde_json::Map<String, Value> = row
                    .iter()
                    .map(|(name, text)| {
                        let number = numbers.contains(&name.as_str());
                        let value = if number {
                            text.parse::<i64>().map_or(Value::Null, Value::from)
                        } else {
                            text.as_str().into()
                        };
                        (name.clone(), value)
                    })
                    .collect();
                let value = Some(Value::from(value).to_string());
                OutputRecord { partition: 0, offset, key: None, value }
            })
            .collect()
    }

    #[test]
    fn the_check_of_windows_finds_lost_doubled_and_wrong_records() {
        let expected = Expected::of_the_year(Query::Q2);
        let all = records(&expected);
        assert_eq!(expected.check(&all, 0), Ok(()));
        assert!(
            expected
                .check(&all[1..], 0)
                .is_err_and(|said| said.starts_with("1 windows lost, 0 doubled, 0 wrong"))
        );
        let mut doubled = all.clone();
        doubled.push(all[7].clone());
        assert!(
            expected
                .check(&doubled, 0)
                .is_err_and(|said| said.starts_with("0 windows lost, 1 doubled, 0 wrong"))
        );
        let mut wrong = all;
        wrong[3].value = Some(
            wrong[3].value.clone().unwrap_or_default().replace("\"landings\":", "\"landings\":1"),
        );
        assert!(
            expected
                .check(&wrong, 0)
                .is_err_and(|said| said.starts_with("1 windows lost, 0 doubled, 1 wrong"))
        );
    }
}
