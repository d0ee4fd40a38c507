//! `public = { … }`: the form in which ids leave the house.

use mintage_core::plugin::{SchemePlan, Settings, Value};

use super::{Block, EntityConfig, Known, Reader};
use crate::{
    config::{tree::join, words},
    public::{PublicForm, Subject},
};

impl<'c> Reader<'c> {
    /// The form as written. Without a line, a token under the only key there is; with several keys or none, no form, and
    /// publishing is refused: it never falls back to the raw id.
    pub(super) fn public(
        &mut self,
        entity: &Block<'c>,
        plan: &dyn SchemePlan,
        known: &Known<'c>,
    ) -> Option<PublicForm> {
        let dense_from = plan.needs().sequence.map(|sequence| sequence.start);
        let subject = Subject { entity: entity.name, scheme: plan.info(), dense_from };
        let Some(setting) = entity.setting("public") else {
            let only = *known.keys.first().filter(|_| known.keys.len() == 1)?;
            return PublicForm::token(&entity.name.replace('-', "_"), subject.scheme.kind)
                .ok()
                .map(|form| form.under_key(only));
        };
        let Value::Table(table) = &setting.value else { return None };
        let path = join(&entity.path, "public");
        let mut settings = Settings::new(path.clone(), Some(setting.at), table, &mut self.problems, self.now_ms);
        let form = PublicForm::read(&mut settings, &subject);
        let public = Block { name: "public", path, at: setting.at, table };
        let Some(form) = form else {
            // What is wrong with the form hides no key that does not exist.
            if let Some((key, at)) = public.text("key") {
                self.known_name("key", key, &known.keys, &join(&public.path, "key"), at);
            }
            return None;
        };
        self.keys_of(&public, form, known)
    }

    /// Every key named must be one of `[keys]`; the only one there is need not be named.
    fn keys_of(&mut self, public: &Block<'c>, form: PublicForm, known: &Known<'c>) -> Option<PublicForm> {
        if !form.needs_key() {
            return Some(form);
        }
        let path = join(&public.path, "key");
        let form = match (public.text("key"), known.keys.as_slice()) {
            (Some((key, at)), _) => {
                self.known_name("key", key, &known.keys, &path, at)?;
                form
            }
            (None, [only]) => form.under_key(*only),
            (None, []) => {
                let message = "there is no key: add the lines `[keys.main]` and `file = \"mintage.keys\"`";
                self.refuse(&path, Some(public.at), message);
                return None;
            }
            (None, several) => {
                let message = format!("missing: there are several keys, so name one of {}", words::listed(several));
                self.refuse(&path, Some(public.at), message);
                return None;
            }
        };
        for key in form.stage_keys() {
            self.known_name("key", key, &known.keys, &join(&public.path, "stages"), public.at)?;
        }
        Some(form)
    }

    /// No two entities of a realm share a prefix or a number.
    pub(super) fn public_clashes(&mut self, entities: &[EntityConfig]) {
        let forms: Vec<(&str, &PublicForm)> =
            entities.iter().filter_map(|entity| Some((entity.name.as_str(), entity.public.as_ref()?))).collect();
        for (name, error) in PublicForm::clashes(&forms) {
            let path = join(&join("entities", &name), "public");
            let block = self.block("entities", &name);
            let public = block.as_ref().and_then(|block| block.setting("public"));
            let at = public.map(|setting| match &setting.value {
                Value::Table(table) => {
                    table.iter().find(|(key, _)| key == error.key()).map_or(setting.at, |(_, key)| key.at)
                }
                _ => setting.at,
            });
            self.refuse(&join(&path, error.key()), at.or(block.map(|block| block.at)), error.message());
        }
    }
}
