//! The bits of an id, drawn to scale: one symbol a bit, or one for two bits where the id is wide.
//!
//! Roles are told by letter first; colour only helps.

use mintage::core::{Anatomy, Field, Role};

use crate::output;

/// Ids wider than this are drawn with one symbol for two bits, so that a line stays on a screen.
const WIDE_BITS: u32 = 64;

/// The bit line and its legend.
pub(crate) fn bits(anatomy: &Anatomy) -> Vec<String> {
    let bits_a_symbol = if anatomy.width() > WIDE_BITS { 2 } else { 1 };
    let mut line = String::new();
    for field in &anatomy.fields {
        let symbols = usize::try_from(field.width.div_ceil(bits_a_symbol)).unwrap_or(0);
        line.push_str(&paint(field.role, &symbol(field).to_string().repeat(symbols)));
    }
    let legend: Vec<String> = anatomy
        .fields
        .iter()
        .map(|field| paint(field.role, &format!("{} {} {}", symbol(field), field.name, field.width)))
        .collect();
    let scale = if bits_a_symbol == 1 { "one symbol a bit" } else { "one symbol for two bits" };
    vec![line, format!("{} ({scale})", legend.join(", "))]
}

fn symbol(field: &Field) -> char {
    match field.role {
        Role::Time => 't',
        Role::Worker if field.name == "region" => 'g',
        Role::Worker => 'w',
        Role::Sequence => 's',
        Role::Random => 'r',
        _ => '.',
    }
}

fn paint(role: Role, text: &str) -> String {
    let code = match role {
        _ if !output::coloured() => return text.to_owned(),
        Role::Time => "34",
        Role::Worker => "35",
        Role::Sequence => "32",
        Role::Random => "33",
        _ => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
