//! What single rules of the reader say; the sentences are in the golden file.

use super::*;
