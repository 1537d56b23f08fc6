//! A program that does not count tokens, to see what is left of the other two without them.

fn main() {
    remem_tokens_compare::report("no tokenizer", str::len);
}
