//! Printing: results on stdout, remarks on stderr.

use std::io::{IsTerminal, Write};

/// A remark for people, on stderr. A stderr that is gone is no reason to fail.
pub(crate) fn remark(text: &str) {
    let lines: Vec<String> = text.split('\n').map(harmless).collect();
    let _ = writeln!(std::io::stderr().lock(), "mintage: {}", lines.join("\n"));
}

/// A text that cannot steer a terminal: what is no visible character is spelled out.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        if matches!(c, '"' | '\'' | '\\') {
            safe.push(c);
        } else {
            safe.extend(c.escape_debug());
        }
    }
    safe
}

/// Whether stdout may be coloured: a terminal, and NO_COLOR not set.
pub(crate) fn coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Asks on the terminal. Without one nobody can answer, and that is no.
pub(crate) fn confirmed() -> std::io::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut terminal = std::io::stderr();
    write!(terminal, "mintage: go ahead? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Rows of two columns, the first padded to a common width.
pub(crate) fn aligned(rows: &[(String, String)], indent: usize) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        let padding = width - name.chars().count();
        text.push_str(&format!("{:indent$}{name}{:padding$}  {value}\n", "", ""));
    }
    text
}

/// A CSV field, quoted where it must be.
pub(crate) fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// A line of a CSV file.
pub(crate) fn csv_line(fields: &[&str]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
    format!("{}\n", fields.join(","))
}
