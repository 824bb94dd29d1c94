//! Between kept inputs and the folders that libFuzzer works in; called by `cargo xtask fuzz`.
//!
//! - `unpack FOLDER`: writes kept and generated inputs of each target to `FOLDER/<target>/`
//! - `keep FOLDER`: adds what is in `FOLDER/<target>/` and neither generated nor too long to what is kept
//! - `list`: the targets, one a line
#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

use std::path::Path;
use std::{fs, io};

use millstream_fuzz_targets::{TARGETS, corpus, seeds};

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["unpack", folder] => unpack(Path::new(folder)),
        ["keep", folder] => keep(Path::new(folder)),
        ["list"] => {
            for target in TARGETS {
                println!("{}", target.name);
            }
            Ok(())
        }
        _ => Err(io::Error::other("usage: unpack FOLDER | keep FOLDER | list")),
    }
}

fn unpack(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        let mut inputs = corpus::read(target.name)?;
        inputs.extend(seeds(target.name));
        for (index, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("kept-{index:04}")), input)?;
        }
    }
    Ok(())
}

fn keep(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        if !folder.is_dir() {
            continue;
        }
        let generated = seeds(target.name);
        let mut found = Vec::new();
        for file in fs::read_dir(&folder)? {
            let input = fs::read(file?.path())?;
            if input.len() <= LONGEST && !generated.contains(&input) {
                found.push(input);
            }
        }
        // The shortest say most.
        found.sort_unstable_by_key(|input| (input.len(), input.clone()));
        found.truncate(MOST);
        println!("{}: {} inputs", target.name, found.len());
        corpus::add(target.name, found)?;
    }
    Ok(())
}

/// What a reviewer can still look at.
const LONGEST: usize = 400;
/// Of one target and one run.
const MOST: usize = 150;
