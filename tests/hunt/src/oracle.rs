//! Judges what the members have written: sorts it, and compares neighbours.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

/// What was found in a folder of members' files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catch {
    pub(crate) ids: u64,
    pub(crate) duplicates: u64,
    /// The first few, for whoever must understand them.
    pub(crate) examples: Vec<String>,
    /// How long a member could mint, of all the time it ran, in milliseconds.
    pub(crate) seen_ms: u64,
    pub(crate) refused_ms: u64,
    /// How long it took from a start, or from the first refusal, to an id, in milliseconds, sorted.
    pub(crate) recoveries_ms: Vec<u64>,
    pub(crate) forks: u64,
}

/// How many bytes of ids there are so far.
pub(crate) fn ids_so_far(folder: &Path) -> u64 {
    files(folder, "events")
        .chain(files(folder, "orders"))
        .filter_map(|file| fs::metadata(file).ok())
        .map(|file| file.len() / 8)
        .sum()
}

/// How long the file of each member's snowflakes is.
pub(crate) fn files_of_events(folder: &Path) -> BTreeMap<PathBuf, u64> {
    files(folder, "events").filter_map(|file| Some((file.clone(), fs::metadata(file).ok()?.len()))).collect()
}

/// Reads everything.
pub(crate) fn judge(folder: &Path) -> io::Result<Catch> {
    let mut catch = Catch::default();
    for kind in ["events", "orders"] {
        let mut ids = Vec::new();
        for file in files(folder, kind) {
            // A write that was cut off in the middle of an id handed nothing out.
            ids.extend(
                fs::read(file)?.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(u64::from_le_bytes)),
            );
        }
        ids.sort_unstable();
        catch.ids += ids.len() as u64;
        for pair in ids.windows(2) {
            if let [one, other] = pair
                && one == other
            {
                catch.duplicates += 1;
                if catch.examples.len() < 5 {
                    catch.examples.push(format!("{kind} {one}"));
                }
            }
        }
    }
    for file in files(folder, "log") {
        read_log(&fs::read_to_string(file)?, &mut catch);
    }
    catch.recoveries_ms.sort_unstable();
    Ok(catch)
}

fn read_log(text: &str, catch: &mut Catch) {
    let (mut seen, mut refused) = (0, 0);
    for line in text.lines() {
        let mut words = line.split(' ');
        let kind = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match kind {
            // Sums since its start, of both kinds of id: the last one counts.
            Some("seen") => {
                seen = 2 * number();
                refused = number() + number();
            }
            Some("start" | "gap") => catch.recoveries_ms.push(number()),
            Some("fork") => catch.forks += 1,
            _ => {}
        }
    }
    catch.seen_ms += seen;
    catch.refused_ms += refused;
}

fn files(folder: &Path, end: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(move |path| path.extension() == Some(OsStr::new(end)))
}

impl Catch {
    /// The time below which a share of the recoveries lies.
    pub(crate) fn recovery_ms(&self, share: f64) -> u64 {
        let place = (self.recoveries_ms.len() as f64 * share) as usize;
        self.recoveries_ms.get(place.min(self.recoveries_ms.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    pub(crate) fn availability(&self) -> f64 {
        if self.seen_ms == 0 { 0.0 } else { 1.0 - self.refused_ms as f64 / self.seen_ms as f64 }
    }
}
