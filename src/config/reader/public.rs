//! `public = { … }`: kept for a later version, but held to its grammar now, so that a config written today stays right.

use std::collections::BTreeMap;

use mintage_core::plugin::{Problem, Setting, Value};

use super::{Block, Known, Reader};
use crate::config::{
    keys::{PREFIX, STAGE_SIZE_MIN},
    tree::join,
    words,
};

impl<'c> Reader<'c> {
    pub(super) fn public(&mut self, entity: &Block<'c>, known: &Known<'c>, prefixes: &mut BTreeMap<&'c str, &'c str>) {
        let Some(setting) = entity.setting("public") else { return };
        let path = join(&entity.path, "public");
        self.problems.push(Problem {
            path: path.clone(),
            at: Some(setting.at),
            message: "public ids are not in this version: these settings are checked but do nothing yet, and `new --public` refuses".to_owned(),
            warning: true,
        });
        let Value::Table(table) = &setting.value else { return };
        let public = Block { name: "public", path, at: setting.at, table };
        self.prefix(&public, entity.name, prefixes);
        self.key(&public, known);
        self.stages(&public, known);
    }

    fn prefix(&mut self, public: &Block<'c>, entity: &'c str, prefixes: &mut BTreeMap<&'c str, &'c str>) {
        let Some((prefix, at)) = public.text("prefix") else { return };
        let path = join(&public.path, "prefix");
        if !PREFIX.fits(prefix) {
            self.refuse(&path, Some(at), format!("{} is no prefix: write {}", words::quoted(prefix), PREFIX.words));
        } else if let Some(owner) = prefixes.get(prefix) {
            let message =
                format!("{} is the prefix of entity {owner} already: give each its own", words::quoted(prefix));
            self.refuse(&path, Some(at), message);
        } else {
            prefixes.insert(prefix, entity);
        }
    }

    fn key(&mut self, table: &Block<'c>, known: &Known<'c>) {
        if let Some((key, at)) = table.text("key") {
            self.known_name("key", key, &known.keys, &join(&table.path, "key"), at);
        }
    }

    fn stages(&mut self, public: &Block<'c>, known: &Known<'c>) {
        let Some(Setting { value: Value::List(stages), at }) = public.setting("stages") else { return };
        let path = join(&public.path, "stages");
        if public.setting("digits").is_some() {
            self.refuse(&path, Some(*at), "`digits` and `stages` say the same thing twice: keep one");
        }
        for (position, stage) in stages.iter().enumerate() {
            let Value::Table(table) = &stage.value else { continue };
            let stage = Block { name: "stage", path: format!("{path}[{position}]"), at: stage.at, table };
            self.key(&stage, known);
            self.stage_size(&stage);
        }
    }

    fn stage_size(&mut self, stage: &Block<'c>) {
        for key in ["base", "lo", "hi"] {
            if stage.setting(key).is_none() {
                self.refuse(&join(&stage.path, key), Some(stage.at), "missing: a stage has base, lo and hi");
            }
        }
        let number = |key| match stage.setting(key).map(|setting| &setting.value) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        };
        let (Some(lo), Some(hi)) = (number("lo"), number("hi")) else { return };
        if hi.saturating_sub(lo) < STAGE_SIZE_MIN {
            let message = format!("lo to hi must span {STAGE_SIZE_MIN} numbers at least: fewer hide nothing");
            self.refuse(&stage.path, Some(stage.at), message);
        }
    }
}
