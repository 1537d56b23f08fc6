//! A program that counts with this crate only, to see its size and its memory.

fn main() {
    remem_tokens_compare::report("remem-tokens", remem_tokens::count);
}
