//! Owns the table of secret shapes. Rows only: a new shape is a new row (and a raised version); a
//! shape that no pattern expresses is a function in `rules`.

use std::ops::Range;

use super::checks::{
    any, diverse, github_like, jwt, letters_and_digits, mixed_case_and_digits, varied_hex,
};
use super::page::Page;
use super::rules;

/// How the secret is found at one of the rule's literals.
pub(super) enum Find {
    /// A pattern that must match right at the literal (group 1, if there is one, is the secret),
    /// and a check of the matched text.
    Token {
        pattern: &'static str,
        accept: fn(&str) -> bool,
    },
    /// A function from the text and the range of the literal to the range of the secret.
    Custom(fn(&Page<'_>, Range<usize>) -> Option<Range<usize>>),
}

/// A secret shape: its kind, the literals that it begins with, and how to find the secret at one.
pub(super) struct Rule {
    pub(super) kind: &'static str,
    pub(super) doc: &'static str,
    /// Literals in lower case, searched without regard to case; the pattern says what case it
    /// wants.
    pub(super) literals: &'static [&'static str],
    pub(super) find: Find,
}

const fn row(
    kind: &'static str,
    doc: &'static str,
    literals: &'static [&'static str],
    pattern: &'static str,
    accept: fn(&str) -> bool,
) -> Rule {
    Rule {
        kind,
        doc,
        literals,
        find: Find::Token { pattern, accept },
    }
}

const fn custom(
    kind: &'static str,
    doc: &'static str,
    literals: &'static [&'static str],
    find: fn(&Page<'_>, Range<usize>) -> Option<Range<usize>>,
) -> Rule {
    Rule {
        kind,
        doc,
        literals,
        find: Find::Custom(find),
    }
}

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    row("github-token", "GitHub tokens ghp_, gho_, ghu_, ghs_, ghr_ with 36 characters",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{36}(?:[A-Za-z0-9]{0,215})", github_like),
    row("github-pat", "GitHub fine-grained tokens github_pat_",
        &["github_pat_"], r"github_pat_[A-Za-z0-9_]{36,255}", mixed_case_and_digits),
    row("aws-access-key-id", "AWS access key ids AKIA and ASIA",
        &["akia", "asia", "abia", "acca"], r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?:[^A-Za-z0-9_]|\z)", diverse),
    custom("aws-secret-key", "AWS secret access keys assigned to a name that says so",
        &["secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key", "aws_secret"], rules::aws_secret_key),
    row("google-api-key", "Google API keys AIza",
        &["aiza"], r"(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|\z)", diverse),
    row("google-oauth", "Google OAuth access tokens ya29. and client secrets GOCSPX-",
        &["ya29.", "gocspx-"], r"ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{24,40}", diverse),
    custom("private-key", "PEM private key blocks, whole, also with escaped line ends as in service account files",
        &["-----begin "], rules::private_key),
    row("slack-token", "Slack tokens xoxb-, xoxp- and their kin, xapp-",
        &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        r"(?:xox[a-eoprs][.-]|xapp-)[A-Za-z0-9%.-]{16,}", letters_and_digits),
    row("slack-webhook", "Slack webhook addresses: the part after /services/",
        &["hooks.slack.com/"], r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{30,})", diverse),
    row("stripe-key", "Stripe secret and restricted keys, live and test",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_"], r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", letters_and_digits),
    row("webhook-secret", "Webhook signing secrets whsec_",
        &["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}", letters_and_digits),
    row("anthropic-key", "Anthropic keys sk-ant-",
        &["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{20,}", mixed_case_and_digits),
    row("openai-key", "OpenAI keys sk-, sk-proj-, sk-svcacct-, sk-admin-, and OpenRouter's sk-or-",
        &["sk-"], r"sk-(?:(?:proj|svcacct|admin|None|or)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})", letters_and_digits),
    row("huggingface-token", "Hugging Face tokens hf_",
        &["hf_"], r"hf_[A-Za-z0-9]{34,40}", diverse),
    row("npm-token", "npm tokens npm_ with 36 characters",
        &["npm_"], r"npm_[A-Za-z0-9]{36}", github_like),
    row("pypi-token", "PyPI tokens pypi-AgE",
        &["pypi-age"], r"pypi-AgE[A-Za-z0-9_-]{50,}", diverse),
    row("gitlab-token", "GitLab tokens glpat- and their kin",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-"],
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{20,}", letters_and_digits),
    row("digitalocean-token", "DigitalOcean tokens dop_v1_, doo_v1_, dor_v1_",
        &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64}", varied_hex),
    row("sendgrid-key", "SendGrid keys SG.",
        &["sg."], r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}", mixed_case_and_digits),
    row("twilio-key", "Twilio API keys SK with 32 hex digits",
        &["sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9", "ska", "skb", "skc", "skd", "ske", "skf"],
        r"(SK[0-9a-f]{32})(?:[^A-Za-z0-9_]|\z)", varied_hex),
    row("mailgun-key", "Mailgun keys key- with 32 hex digits",
        &["key-"], r"(key-[0-9a-f]{32})(?:[^A-Za-z0-9_-]|\z)", varied_hex),
    custom("telegram-token", "Telegram bot tokens",
        &[":aa"], rules::telegram_token),
    custom("discord-token", "Discord bot tokens and webhook addresses",
        &["/api/webhooks/"], rules::discord_webhook),
    row("shopify-token", "Shopify tokens shpat_, shpca_, shppa_, shpss_",
        &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", varied_hex),
    row("azure-key", "Azure account and shared access keys in connection strings",
        &["accountkey=", "sharedaccesskey="], r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,88}={0,2})", diverse),
    row("jwt", "JSON web tokens whose header names an algorithm",
        &["eyj"], r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", jwt),
    custom("url-password", "The password in scheme://user:password@host",
        &["://"], rules::url_password),
    custom("authorization", "Credentials after Authorization: Bearer, Basic or Token, and long Bearer tokens anywhere",
        &["authorization", "bearer "], rules::authorization),
    row("remembrancer-key", "API keys of this host, remem_ with 43 characters",
        &["remem_"], r"(remem_[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|\z)", mixed_case_and_digits),
    row("vault-token", "HashiCorp Vault tokens hvs., hvb., hvr.",
        &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}", letters_and_digits),
    row("age-key", "age secret keys",
        &["age-secret-key-1"], r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", any),
    custom("assignment", "A random-looking value of 20 or more characters assigned to a name such as api_key, secret, token, password",
        &["api_key", "api-key", "apikey", "access_key", "access-key", "accesskey", "private_key", "secret", "token", "password", "passwd", "pwd", "credential", "credentials"],
        rules::assignment),
];
