//! How messages quote, list and guess: one line each, never longer than a reader wants.

/// Longest text of the file that a message repeats, in characters: a whole line of a terminal at most.
const SHOWN_MAX: usize = 60;
/// Most names a list in a message has: more than that is no help.
const LISTED_MAX: usize = 20;
/// Most names a guess is made from: enough for any config written by hand.
const GUESSED_MAX: usize = 100;

/// `text` in quotes, on one line, cut if it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", clipped(text))
}

/// `text`, cut if it is long.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// `a, b, c`; the first of them if there are many.
pub(super) fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(LISTED_MAX).map(|name| clipped(name)).collect();
    let more = names.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// `no scheme "snowflak" (known: ksuid, snowflake); did you mean "snowflake"?`
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let known_text = if known.is_empty() { "there is none".to_owned() } else { format!("known: {}", listed(known)) };
    format!("no {what} {} ({known_text}){}", quoted(name), did_you_mean(name, known))
}

/// `; did you mean "snowflake"?`, or nothing where no name is near.
pub(super) fn did_you_mean(name: &str, known: &[&str]) -> String {
    nearest(name, known).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default()
}

/// The known name that `name` most likely stands for.
///
/// A third of the letters may be wrong, swapped neighbours counting once; the case of letters and `-` for `_` count nothing.
pub(super) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer names are nobody's typing error, and the distance costs the product of the lengths.
    if name.chars().nth(SHOWN_MAX).is_some() {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let name = plain(name);
    let letters = name.chars().count();
    known
        .iter()
        .take(GUESSED_MAX)
        .map(|candidate| (strsim::damerau_levenshtein(&name, &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| {
            *distance <= (letters.max(candidate.chars().count()) / 3).max(1) && *distance < letters
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A duration as the config writes it: `10s`, `1500ms`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// A duration for people: whole days, hours or minutes where it is one.
pub(super) fn span(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)];
    let whole = units.iter().find(|(_, unit_ms)| ms > 0 && ms.is_multiple_of(*unit_ms));
    whole.map_or_else(|| duration(ms), |(unit, unit_ms)| format!("{}{unit}", ms / unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let schemes = ["ksuid", "segment", "snowflake", "ulid", "uuidv4", "uuidv7"];
        for (typed, meant) in [
            ("snowflak", Some("snowflake")),
            ("Snowflake", Some("snowflake")),
            ("uuid7", Some("uuidv7")),
            ("uuidv8", Some("uuidv4")),
            ("segmnet", Some("segment")),
            ("nanoid", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, &schemes), meant, "{typed}");
        }
        assert_eq!(nearest("mian", &["main", "audit"]), Some("main"));
        assert_eq!(nearest("refill-at", &["range", "refill_at"]), Some("refill_at"));
        assert_eq!(nearest(&"a".repeat(100_000), &schemes), None);
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert_eq!(quoted(&"é".repeat(61)), format!("\"{}…\"", "é".repeat(60)));
        assert_eq!(clipped(&"é".repeat(60)), "é".repeat(60));
        let many = vec!["a"; 25];
        assert!(listed(&many).ends_with("a, a and 5 more"));
    }

    #[test]
    fn durations_read_back() {
        for (ms, text) in [(0, "0s"), (1, "1ms"), (1_500, "1500ms"), (10_000, "10s"), (60_000, "60s")] {
            assert_eq!(duration(ms), text);
            assert_eq!(mintage_core::plugin::parse_duration_ms(text), Some(ms));
        }
        for (ms, text) in [(0, "0s"), (1_500, "1500ms"), (90_000, "90s"), (120_000, "2m"), (86_400_000, "1d")] {
            assert_eq!(span(ms), text);
        }
    }
}
