//! Goal: every row of the table matches its shape and redacts only the secret in it, and ordinary
//! text comes through byte for byte. Tokens are put together from two halves, so that no scanner of
//! this repository takes a test for a leak.

use super::*;
use crate::redact::{Redactor, ShapePolicy};

const R20: &str = "Kq7zP2mW9x4LtB6vNc3R";
const R24: &str = "Kq7zP2mW9x4LtB6vNc3RjY8s";
const R36: &str = "Kq7zP2mW9x4LtB6vNc3RjY8sHd5Fg1TaUe0o";
const HEX32: &str = "9f86d081884c7d659a2feaa0c55ad015";

/// Text before, the secret in two halves, text after.
type ShapeCase<'a> = (&'static str, &'a str, &'a str, &'a str, &'a str);

fn check((kind, before, head, tail, after): ShapeCase<'_>) {
    let text = format!("{before}{head}{tail}{after}");
    let cleaned = Redactor::empty().clean(&text, ShapePolicy::Redact);
    assert_eq!(
        cleaned.text.as_str(),
        format!("{before}[REDACTED:shape-{kind}]{after}"),
        "{text}"
    );
    assert_eq!(cleaned.shapes, [ShapeKind::named(kind).unwrap()], "{text}");
    let flagged = Redactor::empty().clean(&text, ShapePolicy::Flag);
    assert_eq!(
        (flagged.text.as_str(), &flagged.shapes),
        (text.as_str(), &cleaned.shapes)
    );
    assert_eq!(
        Redactor::empty()
            .clean(&text, ShapePolicy::Off)
            .text
            .as_str(),
        text
    );
}

#[test]
fn vendor_tokens_are_redacted() {
    let hex64 = HEX32.repeat(2);
    let r48 = format!("{R24}{R24}");
    let r86 = format!("{R36}{R36}{}Ab3+/x9Q2w", "d7");
    let cases: &[ShapeCase<'_>] = &[
        ("github-token", "token is ", "ghp_", R36, " ok"),
        (
            "github-token",
            "url=https://x.test/?t=",
            "gho_",
            R36,
            "&p=2",
        ),
        ("github-token", "(", "ghs_", R36, ")"),
        (
            "github-pat",
            "use ",
            "github_pat_",
            &format!("{R24}_{r48}")[..],
            ".",
        ),
        ("aws-access-key-id", "id ", "AKIA", "J7QXZP3MWK5LTB2V", ","),
        ("aws-access-key-id", "id ", "ASIA", "J7QXZP3MWK5LTB2V", ""),
        (
            "aws-secret-key",
            "aws_secret_access_key = ",
            R20,
            R20,
            "\nregion = x",
        ),
        (
            "aws-secret-key",
            "\"SecretAccessKey\": \"",
            R20,
            "/q+P2mW9x4LtB6vNc3R0",
            "\",",
        ),
        ("google-api-key", "key=", "AIza", &R36[1..], "&v=1"),
        ("google-oauth", "access ", "ya29.", R36, " done"),
        (
            "google-oauth",
            "",
            "GOCSPX-",
            "Kq7zP2mW9x4LtB6vNc3RjY8sHd5F",
            "",
        ),
        (
            "slack-token",
            "bot ",
            "xoxb-",
            "426756126970-Kq7zP2mW9x4LtB6vNc3RjY8s",
            "\n",
        ),
        (
            "slack-token",
            "app ",
            "xapp-",
            "1-A0123-426756126970-9f86d081884c7d659a2f",
            "\n",
        ),
        (
            "slack-webhook",
            "post to https://hooks.slack.com/services/",
            "T01A2B3C4/B05D6E7F8/",
            R24,
            " now",
        ),
        ("stripe-key", "pay ", "sk_live_", R24, ";"),
        ("stripe-key", "pay ", "rk_test_", R24, ";"),
        ("webhook-secret", "sign ", "whsec_", R36, ""),
        ("anthropic-key", "llm ", "sk-ant-api03-", R36, " here"),
        ("openai-key", "llm ", "sk-proj-", R36, " here"),
        ("openai-key", "llm ", "sk-", &r48, " here"),
        ("huggingface-token", "hub ", "hf_", &R36[2..], "!"),
        ("npm-token", "//registry/:_auth ", "npm_", R36, "\n"),
        (
            "pypi-token",
            "upload ",
            "pypi-AgE",
            &format!("IcHlwaS5vcmc{r48}"),
            " x",
        ),
        ("gitlab-token", "git ", "glpat-", R20, " x"),
        ("digitalocean-token", "do ", "dop_v1_", &hex64, " x"),
        (
            "sendgrid-key",
            "mail ",
            "SG.",
            &format!("{}.{}Q2w3E4r", &R24[..22], R36),
            " x",
        ),
        ("twilio-key", "sid ", "SK", HEX32, " x"),
        ("mailgun-key", "mail ", "key-", HEX32, " x"),
        (
            "telegram-token",
            "bot ",
            "123456789:AA",
            "Kq7zP2mW9x4LtB6vNc3RjY8sHd5Fg1TaU",
            " x",
        ),
        (
            "discord-token",
            "bot ",
            "MTIzNDU2Nzg5MDEyMzQ1Njc4",
            ".Gx7kQ2.Kq7zP2mW9x4LtB6vNc3RjY8sHd5",
            " x",
        ),
        (
            "discord-token",
            "https://discord.com/api/webhooks/123456789012345678/",
            &r48,
            R20,
            " x",
        ),
        ("shopify-token", "shop ", "shpat_", HEX32, " x"),
        (
            "azure-key",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=",
            &r86,
            "==",
            ";EndpointSuffix=x",
        ),
        (
            "remembrancer-key",
            "memory ",
            "remem_",
            &format!("{R36}{}", &R20[..7]),
            " x",
        ),
        ("vault-token", "vault ", "hvs.", R36, " x"),
        (
            "age-key",
            "age ",
            "AGE-SECRET-KEY-1",
            "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE",
            " x",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn a_jwt_needs_a_header_with_an_algorithm() {
    let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    check((
        "jwt",
        "session ",
        header,
        ".eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        " end",
    ));
    // A header without an algorithm is some other base64 text.
    let other = "see eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N ok";
    assert_eq!(
        Redactor::empty()
            .clean(other, ShapePolicy::Redact)
            .text
            .as_str(),
        other
    );
}

#[test]
fn private_key_blocks_are_redacted_whole() {
    let line = "MIIEvKq7zP2mW9x4LtB6vNc3RjY8sHd5Fg1TaUe0oKq7zP2mW9x4LtB6vNc3RjY8";
    for kind in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ] {
        check((
            "private-key",
            "key:\n",
            &format!("-----BEGIN {kind}-----\n{line}\n{line}\n"),
            &format!("-----END {kind}-----"),
            "\nthat was it",
        ));
    }
    check((
        "private-key",
        "\"private_key\": \"",
        &format!("-----BEGIN PRIVATE KEY-----\\n{line}\\n"),
        "-----END PRIVATE KEY-----\\n"[..25].trim_end(),
        "\\n\",",
    ));
    check((
        "private-key",
        "cut off: ",
        "-----BEGIN PRIVATE KEY-----\n",
        line,
        "",
    ));
}

#[test]
fn only_the_password_of_a_url_is_redacted() {
    for (before, password, after) in [
        (
            "postgres://svc:",
            "s3cr3t!pw",
            "@db.internal:5432/app?sslmode=require",
        ),
        ("redis://:", "hunter2", "@cache:6379/0"),
        ("redis://:", "p", "@h"),
        ("see https://bob:", "p@ss", "@example.com/x."),
        ("amqp://u:", "%40dm1n", "@[::1]:5672"),
        (
            "mongodb+srv://app:",
            "correct-horse",
            "@cluster0.mongodb.net/db",
        ),
    ] {
        check(("url-password", before, password, "", after));
    }
}

#[test]
fn headers_and_assignments_keep_their_field_names() {
    let cases: &[ShapeCase<'_>] = &[
        (
            "authorization",
            "Authorization: Bearer ",
            R20,
            "",
            "\r\nAccept: */*",
        ),
        (
            "authorization",
            "curl -H 'Authorization: Basic ",
            "c3ZjLXVzZXI6aHVudGVyMg==",
            "",
            "' x",
        ),
        (
            "authorization",
            "{\"Authorization\": \"Token ",
            R20,
            "",
            "\"}",
        ),
        ("authorization", "it said Bearer ", R24, "", " twice"),
        ("assignment", "api_key = \"", R20, "", "\""),
        (
            "assignment",
            "export API_KEY=",
            R24,
            "",
            "\nexport REGION=eu",
        ),
        ("assignment", "client_secret: '", R24, "", "'"),
        ("assignment", "{\"access_token\":\"", R24, "", "\",\"n\":1}"),
        ("assignment", "{\\\"password\\\":\\\"", R24, "", "\\\"}"),
        ("assignment", "password=", HEX32, "", "&next=1"),
        ("assignment", "DB_PASSWORD: ", R24, "", ""),
        ("assignment", "config[\"secret\"] => '", R24, "", "';"),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn ordinary_text_is_unchanged() {
    let text = include_str!("../testdata/ordinary.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() >= 60, "only {} controls", lines.len());
    for line in lines {
        let cleaned = Redactor::empty().clean(line, ShapePolicy::Redact);
        assert_eq!(cleaned.text.as_str(), line, "{:?}", cleaned.shapes);
        assert_eq!(cleaned.shapes, []);
    }
    assert_eq!(
        Redactor::empty()
            .clean(text, ShapePolicy::Redact)
            .text
            .as_str(),
        text,
        "as one text"
    );
}

#[test]
fn documentation_placeholders_are_unchanged() {
    for line in [
        format!("ghp_{}", "x".repeat(36)),
        format!("npm_{}", "0".repeat(36)),
        format!("sk-{}", "x".repeat(48)),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("xoxb-{}", "x".repeat(30)),
        "api_key = \"your-api-key-goes-here-1234\"".to_owned(),
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX".to_owned(),
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        "postgres://user:${DB_PASSWORD}@host/db".to_owned(),
        "postgres://user:$PASS@host/db".to_owned(),
        "https://u:****@host".to_owned(),
        "Authorization: Bearer <token>".to_owned(),
        "Authorization: Bearer $TOKEN".to_owned(),
        "token: ${{ secrets.GITHUB_TOKEN }}".to_owned(),
        "-----BEGIN PRIVATE KEY----- starts a block and -----END PRIVATE KEY----- ends it"
            .to_owned(),
    ] {
        assert_eq!(
            Redactor::empty()
                .clean(&line, ShapePolicy::Redact)
                .text
                .as_str(),
            line
        );
    }
}

#[test]
fn shape_kinds_are_unique_named_and_documented() {
    let kinds: Vec<&str> = shape_table().map(|(kind, _)| kind).collect();
    assert!(kinds.len() >= 28);
    for (kind, doc) in shape_table() {
        assert_eq!(ShapeKind::named(kind).map(ShapeKind::as_str), Some(kind));
        assert!(
            kind.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{kind}"
        );
        assert!(!doc.is_empty() && !doc.contains('\n'));
        assert_eq!(
            kinds.iter().filter(|other| **other == kind).count(),
            1,
            "{kind}"
        );
    }
    for rule in RULES {
        assert!(
            rule.literals
                .iter()
                .all(|literal| literal.len() >= 3 && *literal == literal.to_ascii_lowercase()),
            "{}",
            rule.kind
        );
    }
    assert_eq!(ShapeKind::named("no-such-kind"), None);
}
