//! Owns the table of secret shapes. Rows only: a new shape is a new row (and a raised version); a
//! shape that no pattern expresses is a function in `rules`.

use std::ops::Range;

use super::checks::{
    accept_all, has_letters_and_digits, has_mixed_case_and_digits, is_diverse, is_github_token,
    is_jwt, is_varied_hex,
};
use super::input::ScanInput;
use super::rules;

/// How the secret is found at one of the rule's literals.
pub(super) enum ShapeMatcher {
    /// A pattern that must match right at the literal (group 1, if there is one, is the secret),
    /// and a check of the matched text.
    Token {
        pattern: &'static str,
        accept: fn(&str) -> bool,
    },
    /// A function from the text and the range of the literal to the range of the secret.
    Custom(fn(&ScanInput<'_>, Range<usize>) -> Option<Range<usize>>),
}

/// A secret shape: its kind, the literals that it begins with, and how to find the secret at one.
pub(super) struct ShapeRule {
    pub(super) kind: &'static str,
    pub(super) doc: &'static str,
    /// Literals in lower case, searched without regard to case; the pattern says which case it
    /// requires.
    pub(super) literals: &'static [&'static str],
    pub(super) matcher: ShapeMatcher,
}

const fn token_rule(
    kind: &'static str,
    doc: &'static str,
    literals: &'static [&'static str],
    pattern: &'static str,
    accept: fn(&str) -> bool,
) -> ShapeRule {
    ShapeRule {
        kind,
        doc,
        literals,
        matcher: ShapeMatcher::Token { pattern, accept },
    }
}

const fn custom_rule(
    kind: &'static str,
    doc: &'static str,
    literals: &'static [&'static str],
    find: fn(&ScanInput<'_>, Range<usize>) -> Option<Range<usize>>,
) -> ShapeRule {
    ShapeRule {
        kind,
        doc,
        literals,
        matcher: ShapeMatcher::Custom(find),
    }
}

#[rustfmt::skip]
pub(super) const RULES: &[ShapeRule] = &[
    token_rule("github-token", "GitHub tokens ghp_, gho_, ghu_, ghs_, ghr_ with 36 characters",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{36}(?:[A-Za-z0-9]{0,215})", is_github_token),
    token_rule("github-pat", "GitHub fine-grained tokens github_pat_",
        &["github_pat_"], r"github_pat_[A-Za-z0-9_]{36,255}", has_mixed_case_and_digits),
    token_rule("aws-access-key-id", "AWS access key ids AKIA and ASIA",
        &["akia", "asia", "abia", "acca"], r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?:[^A-Za-z0-9_]|\z)", is_diverse),
    custom_rule("aws-secret-key", "AWS secret access keys assigned to a name that says so",
        &["secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key", "aws_secret"], rules::aws_secret_key),
    token_rule("google-api-key", "Google API keys AIza",
        &["aiza"], r"(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|\z)", is_diverse),
    token_rule("google-oauth", "Google OAuth access tokens ya29. and client secrets GOCSPX-",
        &["ya29.", "gocspx-"], r"ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{24,40}", is_diverse),
    custom_rule("private-key", "PEM private key blocks, whole, also with escaped line ends as in service account files",
        &["-----begin "], rules::private_key),
    token_rule("slack-token", "Slack tokens xoxb-, xoxp- and their kin, xapp-",
        &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        r"(?:xox[a-eoprs][.-]|xapp-)[A-Za-z0-9%.-]{16,}", has_letters_and_digits),
    token_rule("slack-webhook", "Slack webhook addresses: the part after /services/",
        &["hooks.slack.com/"], r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{30,})", is_diverse),
    token_rule("stripe-key", "Stripe secret and restricted keys, live and test",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_"], r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", has_letters_and_digits),
    token_rule("webhook-secret", "Webhook signing secrets whsec_",
        &["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}", has_letters_and_digits),
    token_rule("anthropic-key", "Anthropic keys sk-ant-",
        &["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{20,}", has_mixed_case_and_digits),
    token_rule("openai-key", "OpenAI keys sk-, sk-proj-, sk-svcacct-, sk-admin-, and OpenRouter's sk-or-",
        &["sk-"], r"sk-(?:(?:proj|svcacct|admin|None|or)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})", has_letters_and_digits),
    token_rule("huggingface-token", "Hugging Face tokens hf_",
        &["hf_"], r"hf_[A-Za-z0-9]{34,40}", is_diverse),
    token_rule("npm-token", "npm tokens npm_ with 36 characters",
        &["npm_"], r"npm_[A-Za-z0-9]{36}", is_github_token),
    token_rule("pypi-token", "PyPI tokens pypi-AgE",
        &["pypi-age"], r"pypi-AgE[A-Za-z0-9_-]{50,}", is_diverse),
    token_rule("gitlab-token", "GitLab tokens glpat- and their kin",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-"],
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{20,}", has_letters_and_digits),
    token_rule("digitalocean-token", "DigitalOcean tokens dop_v1_, doo_v1_, dor_v1_",
        &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64}", is_varied_hex),
    token_rule("sendgrid-key", "SendGrid keys SG.",
        &["sg."], r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}", has_mixed_case_and_digits),
    token_rule("twilio-key", "Twilio API keys SK with 32 hex digits",
        &["sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9", "ska", "skb", "skc", "skd", "ske", "skf"],
        r"(SK[0-9a-f]{32})(?:[^A-Za-z0-9_]|\z)", is_varied_hex),
    token_rule("mailgun-key", "Mailgun keys key- with 32 hex digits",
        &["key-"], r"(key-[0-9a-f]{32})(?:[^A-Za-z0-9_-]|\z)", is_varied_hex),
    custom_rule("telegram-token", "Telegram bot tokens",
        &[":aa"], rules::telegram_token),
    custom_rule("discord-token", "Discord bot tokens and webhook addresses",
        &["/api/webhooks/"], rules::discord_webhook),
    token_rule("shopify-token", "Shopify tokens shpat_, shpca_, shppa_, shpss_",
        &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", is_varied_hex),
    token_rule("azure-key", "Azure account and shared access keys in connection strings",
        &["accountkey=", "sharedaccesskey="], r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,88}={0,2})", is_diverse),
    token_rule("jwt", "JSON web tokens whose header names an algorithm",
        &["eyj"], r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", is_jwt),
    custom_rule("url-password", "The password in scheme://user:password@host",
        &["://"], rules::url_password),
    custom_rule("authorization", "Credentials after Authorization: Bearer, Basic or Token, and long Bearer tokens anywhere",
        &["authorization", "bearer "], rules::authorization),
    token_rule("remembrancer-key", "API keys of this host, remem_ with 43 characters",
        &["remem_"], r"(remem_[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|\z)", has_mixed_case_and_digits),
    token_rule("vault-token", "HashiCorp Vault tokens hvs., hvb., hvr.",
        &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}", has_letters_and_digits),
    token_rule("age-key", "age secret keys",
        &["age-secret-key-1"], r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", accept_all),
    custom_rule("assignment", "A random-looking value of 20 or more characters assigned to a name such as api_key, secret, token, password",
        &["api_key", "api-key", "apikey", "access_key", "access-key", "accesskey", "private_key", "secret", "token", "password", "passwd", "pwd", "credential", "credentials"],
        rules::assignment),
];
