//! Commitments of the real host: at the command line, and on nodes that die.

mod commands;
mod nodes;
