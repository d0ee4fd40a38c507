//! `scheme = "bearer"`: entities of secret tokens.

use mintage_core::{TokenRow, plugin::Settings};

use super::{Block, EntityConfig, Known, Reader};
use crate::{
    config::{TokensConfig, keys::SCOPE, tree::join, words},
    public::BearerFormat,
};

/// Shortest default life of a token, in milliseconds: with less it is over before its owner has read it.
const EXPIRES_MIN_MS: u64 = 1_000;
/// Longest, in milliseconds: a hundred years of 365 days. Beyond it "for ever" is meant, which is to leave the key out.
const EXPIRES_MAX_MS: u64 = 100 * 365 * 86_400_000;

impl<'c> Reader<'c> {
    pub(super) fn tokens(&mut self, known: &Known<'c>, entities: &[EntityConfig]) -> Vec<TokensConfig> {
        let blocks: Vec<Block<'c>> = self.tables("entities").filter(Block::has_tokens).collect();
        let mut read: Vec<TokensConfig> = Vec::new();
        for block in &blocks {
            let Some(tokens) = self.tokens_of(block, known) else { continue };
            self.prefix_is_free(block, &tokens, &read, entities);
            read.push(tokens);
        }
        read
    }

    fn tokens_of(&mut self, block: &Block<'c>, known: &Known<'c>) -> Option<TokensConfig> {
        let store = self.store_of(block, known);
        let mut settings = self.settings(block);
        let expires_ms = expires(&mut settings);
        let scopes = scopes(&mut settings);
        let format = format(&mut settings)?;
        Some(TokensConfig {
            name: block.name.to_owned(),
            format,
            expires_ms,
            scopes,
            // Empty after a fault, and then nobody sees it.
            store: store.unwrap_or_default(),
            at: block.at,
        })
    }

    /// A token that is found somewhere must say whose it is.
    fn prefix_is_free(
        &mut self,
        block: &Block<'c>,
        tokens: &TokensConfig,
        others: &[TokensConfig],
        entities: &[EntityConfig],
    ) {
        let prefix = tokens.format.prefix();
        let of_tokens = others.iter().find(|other| other.format.prefix() == prefix).map(|other| other.name.as_str());
        let of_ids = entities
            .iter()
            .find(|entity| entity.public.as_ref().and_then(|form| form.prefix()) == prefix.strip_suffix('_'))
            .map(|entity| entity.name.as_str());
        if let Some(owner) = of_tokens.or(of_ids) {
            let path = join(&block.path, "prefix");
            let at = block.setting("prefix").map_or(block.at, |setting| setting.at);
            let message =
                format!("{} is the prefix of entity {owner} already: give each its own", words::quoted(prefix));
            self.refuse(&path, Some(at), message);
        }
    }
}

fn format(settings: &mut Settings<'_>) -> Option<BearerFormat> {
    if !settings.has("prefix") {
        settings.refuse(
            "prefix",
            "missing: write what the tokens begin with, company and kind, such as `prefix = \"acme_pat_\"`",
        );
        return None;
    }
    let format = BearerFormat::new(settings.text("prefix")?);
    format.map_err(|error| settings.refuse("prefix", error.message())).ok()
}

fn expires(settings: &mut Settings<'_>) -> Option<u64> {
    let expires_ms = settings.duration_ms("expires")?;
    if (EXPIRES_MIN_MS..=EXPIRES_MAX_MS).contains(&expires_ms) {
        return Some(expires_ms);
    }
    settings.refuse("expires", "a token lives from 1s to 36500d; for one that never expires leave this line out");
    None
}

fn scopes(settings: &mut Settings<'_>) -> Option<Vec<String>> {
    let scopes = settings.texts("scopes")?;
    if let Some(odd) = scopes.iter().find(|scope| !SCOPE.fits(scope)) {
        settings.refuse("scopes", format!("{} is no scope: write {}", words::quoted(odd), SCOPE.words));
    } else if scopes.len() > TokenRow::SCOPES_MAX {
        settings.refuse("scopes", format!("{} scopes, {} at most", scopes.len(), TokenRow::SCOPES_MAX));
    } else if let Some((_, twice)) =
        scopes.iter().enumerate().find(|(at, scope)| scopes.iter().take(*at).any(|other| other == *scope))
    {
        settings.refuse("scopes", format!("{} stands there twice: once is enough", words::quoted(twice)));
    }
    Some(scopes.into_iter().map(str::to_owned).collect())
}
