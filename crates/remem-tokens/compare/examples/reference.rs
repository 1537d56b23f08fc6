//! A program that counts with the reference only, to see its size and its memory.

fn main() {
    remem_tokens_compare::report("bpe-openai", |text| bpe_openai::o200k_base().count(text));
}
