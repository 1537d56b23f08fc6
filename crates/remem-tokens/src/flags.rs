//! The sets of characters that the pattern of o200k_base names, as flags. The class of a character
//! is the sum of the flags of the sets it is in. The build script uses this file as well.

/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: may be in the first part of a word.
pub const HEAD: u8 = 1;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: may be in the second part of a word.
pub const TAIL: u8 = 2;
/// `[^\r\n\p{L}\p{N}]`: may come before a word.
pub const PREFIX: u8 = 4;
/// `\p{N}`: the digits and other numbers.
pub const NUMBER: u8 = 8;
/// `\s`: white space of any kind.
pub const SPACE: u8 = 16;
/// `[\r\n]`: characters that end a line.
pub const NEWLINE: u8 = 32;
/// `[^\s\p{L}\p{N}]`: punctuation and other symbols.
pub const SYMBOL: u8 = 64;

/// The number of code points that share a block of the table of classes.
pub const BLOCK: usize = 256;
