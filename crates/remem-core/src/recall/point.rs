//! point: reads the single times that a query names: "yesterday", "last spring", "3 weeks ago",
//! "June 2025". A date without a year is in the past, because a memory is asked about the past. It
//! does not read relations between times ("between", "since"): `when` does.
//!
//! An ambiguous word is a time only where it can be nothing else: a month's name alone needs a
//! preposition, and "may" and "march" in lower case need more than that.

use super::when::TimePreposition;
use crate::ids::Timestamp;
use crate::infer::calendar::{
    CalendarUnit, DayReference, Gap, Sentence, TimeContext, TimeHit, add_units,
    first_day_of_period, first_instant_at, is_noun, iso_time, month_day, read_amount,
};
use jiff::civil::{Date, DateTime};

const PAST_DAYS: &[(&str, i64)] = &[
    ("yesterday", -1),
    ("the day before yesterday", -2),
    ("day before yesterday", -2),
];
/// Parts of a day with the hours at which they begin and end; an end beyond 24 is on the next day.
const PARTS_OF_DAY: &[(&str, i64, i64)] = &[
    ("morning", 0, 12),
    ("afternoon", 12, 18),
    ("evening", 17, 24),
    ("night", 18, 30),
];
/// Phrases for a part of a day: the distance of the day from today, and the part.
const PART_OF_DAY_PHRASES: &[(&str, i64, &str)] = &[
    ("this morning", 0, "morning"),
    ("this afternoon", 0, "afternoon"),
    ("this evening", 0, "evening"),
    ("tonight", 0, "night"),
    ("last night", -1, "night"),
];
/// Seasons with the month in which they begin, by the meteorological calendar of the northern
/// hemisphere.
const SEASONS: &[(&str, i8)] = &[
    ("spring", 3),
    ("summer", 6),
    ("autumn", 9),
    ("fall", 9),
    ("winter", 12),
];
const DIRECTION_WORDS: &[(&str, RelativeDirection)] = &[
    ("last", RelativeDirection::Last),
    ("previous", RelativeDirection::Last),
    ("past", RelativeDirection::Past),
    ("this", RelativeDirection::This),
    ("next", RelativeDirection::Next),
];
const AGO: &str = "ago";
/// Phrases for a number that is only approximate.
const APPROXIMATE_AMOUNTS: &[&str] = &["a few", "a couple of", "a couple", "couple of", "about a"];
/// Words that may come before "last week" and the like, and make it an attribute.
const DETERMINERS: &[&str] = &[
    "the", "a", "his", "her", "my", "our", "their", "its", "your", "every", "each",
];
/// Names of months that are also verbs.
const MONTH_VERBS: &[&str] = &["may", "march", "mar"];
/// Words that follow a verb and not a month.
const AFTER_VERB: &[&str] = &[
    "be", "have", "not", "never", "also", "well", "even", "need", "want", "as", "to", "into", "on",
];
/// Words that end like a plural noun but are not one.
const FALSE_PLURALS: &[&str] = &["was", "is", "has", "does", "this", "his", "its", "as", "us"];
/// Plural nouns without an "s".
const IRREGULAR_PLURALS: &[&str] = &["people", "euro", "feet", "men", "women", "children"];

#[derive(Clone, Copy, PartialEq, Eq)]
/// The direction of a relative time: "last", "past", "this", "next".
enum RelativeDirection {
    Last,
    Past,
    This,
    Next,
}

/// A time range that `len` words name, as instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstantRange {
    pub len: usize,
    pub from: Timestamp,
    pub until: Timestamp,
}

/// A time range that `len` words name, in local time.
struct LocalRange {
    len: usize,
    from: DateTime,
    until: DateTime,
}

/// Reads the times of a sentence of a query, relative to the instant of the query.
pub(super) struct QueryTimeReader<'a> {
    pub sentence: &'a Sentence,
    pub context: TimeContext<'a>,
}

impl QueryTimeReader<'_> {
    fn today(&self) -> Date {
        self.context.now.date()
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.context.now.timestamp().as_millisecond())
    }

    /// The time range named at a word. A date without a year is the last one not after `reference`.
    pub fn range_at(
        &self,
        at: usize,
        lead: Option<TimePreposition>,
        reference: Date,
    ) -> Option<InstantRange> {
        if let Some(point) = self.range_up_to_now(at).or_else(|| self.clock_range(at)) {
            return Some(point);
        }
        let span = self
            .named_day(at)
            .or_else(|| self.relative_range(at))
            .or_else(|| self.days_ago(at))
            .or_else(|| self.date_range(at, lead, reference))
            .or_else(|| self.season_range(at))
            .or_else(|| self.month_range(at, lead, reference))
            .or_else(|| self.weekday_range(at, lead, reference))
            .or_else(|| self.year_range(at, lead))?;
        let span = self.narrow_to_part_of_day(at, span);
        let zone = self.context.now.time_zone();
        Some(InstantRange {
            len: span.len,
            from: first_instant_at(zone, span.from)?,
            until: first_instant_at(zone, span.until)?,
        })
    }

    /// "yesterday", "tonight": a day or part of a day, relative to today.
    fn named_day(&self, at: usize) -> Option<LocalRange> {
        let parted = PART_OF_DAY_PHRASES.iter().find_map(|(phrase, days, part)| {
            Some((self.sentence.phrase_len_at(at, phrase)?, *days, *part))
        });
        if let Some((len, days, part)) = parted {
            let date = add_units(self.today(), days, CalendarUnit::Day)?;
            return PARTS_OF_DAY
                .iter()
                .find(|(name, ..)| *name == part)
                .and_then(|(_, from, until)| hour_range(len, date, *from, *until));
        }
        let days = PAST_DAYS.iter().chain(self.context.language.times.days);
        let (len, days) = days
            .filter_map(|(phrase, days)| Some((self.sentence.phrase_len_at(at, phrase)?, *days)))
            .max_by_key(|(len, _)| *len)?;
        single_day(len, add_units(self.today(), days, CalendarUnit::Day)?)
    }

    /// "yesterday morning": narrows a day to the part named after it.
    fn narrow_to_part_of_day(&self, at: usize, span: LocalRange) -> LocalRange {
        let date = span.from.date();
        let whole = single_day(span.len, date)
            .is_some_and(|day| (day.from, day.until) == (span.from, span.until));
        let next = self
            .sentence
            .word(at + span.len)
            .filter(|_| whole && self.sentence.gap(at + span.len) == Gap::Space);
        let part = PARTS_OF_DAY.iter().find(|(name, ..)| next == Some(*name));
        part.and_then(|(_, from, until)| hour_range(span.len + 1, date, *from, *until))
            .unwrap_or(span)
    }

    /// "last week", "this year", "next Monday", "last June", "last spring".
    fn relative_range(&self, at: usize) -> Option<LocalRange> {
        let turn = self.direction_at(at)?;
        let word = self.unmarked_word(at + 1)?;
        let owned = self
            .sentence
            .longest_phrase_before(at, DETERMINERS)
            .is_some();
        if let Some(unit) = self.context.language.unit(word) {
            let rolls =
                turn == RelativeDirection::Past || (owned && turn == RelativeDirection::Last);
            return if rolls {
                None
            } else {
                self.period(unit, turn).filter(|_| !self.is_of(at + 2))
            };
        }
        if self.context.language.times.weekend.contains(&word) {
            let saturday = add_units(
                first_day_of_period(self.today(), CalendarUnit::Week, period_offset(turn))?,
                5,
                CalendarUnit::Day,
            )?;
            return day_range(2, saturday, add_units(saturday, 2, CalendarUnit::Day)?);
        }
        if let Some(weekday) = self
            .context
            .language
            .weekday(word)
            .filter(|_| self.is_day_name(at + 1))
        {
            let date = match turn {
                RelativeDirection::Last | RelativeDirection::Past => {
                    weekday_before(self.today(), weekday)?
                }
                _ => add_units(
                    first_day_of_period(self.today(), CalendarUnit::Week, period_offset(turn))?,
                    i64::from(weekday),
                    CalendarUnit::Day,
                )?,
            };
            return single_day(2, date);
        }
        if let Some(month) = self.context.language.month(word) {
            let lead = if turn == RelativeDirection::Last {
                TimePreposition::In
            } else {
                TimePreposition::Before
            };
            let sure = self.is_month_name(at + 1, Some(lead))
                && !(owned && self.is_verb(at + 1))
                && !self.is_of(at + 2);
            return sure.then(|| self.relative_months(turn, month, 1)).flatten();
        }
        let (_, month) = SEASONS
            .iter()
            .find(|(name, _)| *name == word)
            .filter(|_| !owned && !self.is_of(at + 2))?;
        self.relative_months(turn, *month, 3)
    }

    /// "the last 3 weeks", "past two days", "the last month": up to now.
    fn range_up_to_now(&self, at: usize) -> Option<InstantRange> {
        let turn = self
            .direction_at(at)
            .filter(|turn| matches!(turn, RelativeDirection::Last | RelativeDirection::Past))?;
        let few = self.sentence.phrase_len_at(at + 1, "few").and_then(|_| {
            Some((
                2,
                3,
                self.context.language.unit(self.unmarked_word(at + 2)?)?,
            ))
        });
        let owned = turn == RelativeDirection::Past
            || self.sentence.longest_phrase_before(at, &["the"]).is_some();
        let one = || {
            Some((
                1,
                1,
                self.context.language.unit(self.unmarked_word(at + 1)?)?,
            ))
            .filter(|_| owned)
        };
        let (len, count, unit) = few
            .or_else(|| read_amount(self.sentence, at + 1, self.context.language))
            .or_else(one)?;
        if self.is_of(at + 1 + len) || self.sentence.gap(at + 1) != Gap::Space {
            return None;
        }
        let from = match unit_ms(unit) {
            Some(ms) => self.now().plus_ms(count.checked_mul(-ms)?),
            None => first_instant_at(
                self.context.now.time_zone(),
                add_units(self.today(), -count, unit)?.at(0, 0, 0, 0),
            )?,
        };
        Some(InstantRange {
            len: len + 1,
            from,
            until: self.now().plus_ms(1),
        })
    }

    /// Times that need no calendar: "2 hours ago", as a range of one unit to either side, and an
    /// exact instant, as the minute from it on. Hours that local clocks show twice do not matter
    /// here.
    fn clock_range(&self, at: usize) -> Option<InstantRange> {
        if let Some((len, Some(TimeHit::Instant(ms)))) = iso_time(self.sentence, at) {
            return Some(InstantRange {
                len,
                from: Timestamp(ms),
                until: Timestamp(ms).plus_ms(60_000),
            });
        }
        let (len, count, unit) = read_amount(self.sentence, at, self.context.language)?;
        self.unmarked_word(at + len).filter(|word| *word == AGO)?;
        let units_ago = |units: i64| Some(self.now().plus_ms(units.checked_mul(-unit_ms(unit)?)?));
        Some(InstantRange {
            len: len + 1,
            from: units_ago(count + 1)?,
            until: units_ago(count - 1)?,
        })
    }

    /// "3 days ago": that day; for longer units the period that contains the day. "A few" widens
    /// the range by one unit in both directions.
    fn days_ago(&self, at: usize) -> Option<LocalRange> {
        let (len, count, unit) = read_amount(self.sentence, at, self.context.language)?;
        self.unmarked_word(at + len).filter(|word| *word == AGO)?;
        let vague = i64::from(
            self.sentence
                .longest_phrase_at(at, APPROXIMATE_AMOUNTS)
                .is_some(),
        );
        let first = |units: i64| {
            let date = add_units(self.today(), -units, unit)?;
            if unit == CalendarUnit::Day {
                Some(date)
            } else {
                first_day_of_period(date, unit, 0)
            }
        };
        day_range(
            len + 1,
            first(count + vague)?,
            add_units(first(count - vague)?, 1, unit)?,
        )
    }

    /// "2026-06-03", "June 3", "3 June 2025".
    fn date_range(
        &self,
        at: usize,
        lead: Option<TimePreposition>,
        reference: Date,
    ) -> Option<LocalRange> {
        let (len, hit) = iso_time(self.sentence, at).or_else(|| {
            let month = (at..at + 4).find(|at| {
                self.sentence
                    .word(*at)
                    .is_some_and(|word| self.context.language.month(word).is_some())
            })?;
            let (len, hit) = month_day(self.sentence, at, &self.context)?;
            (month < at + len && self.is_dated_month(at, month, len, lead)).then_some((len, hit))
        })?;
        match hit? {
            TimeHit::Day {
                day: DayReference::On(date),
                ..
            } => single_day(len, date),
            TimeHit::Day {
                day: DayReference::Yearly { month, day: number },
                ..
            } => {
                let of = |years: i16| Date::new(reference.year() - years, month, number).ok();
                single_day(len, (0..9).filter_map(of).find(|date| *date <= reference)?)
            }
            TimeHit::LocalTime(from) => Some(LocalRange {
                len,
                from,
                until: from.checked_add(jiff::Span::new().minutes(1)).ok()?,
            }),
            _ => None,
        }
    }

    /// Whether the month beside a number is really a month: "they march 5 miles" and "the second
    /// may fail" name no date.
    fn is_dated_month(
        &self,
        at: usize,
        month: usize,
        len: usize,
        lead: Option<TimePreposition>,
    ) -> bool {
        let name = self.sentence.word(month).unwrap_or_default();
        let year = self
            .sentence
            .word(at + len - 1)
            .is_some_and(|word| year(word).is_some());
        let article = self.sentence.longest_phrase_before(at, &["the"]).is_some() && month == at;
        let led = lead.is_some() || article;
        !MONTH_VERBS.contains(&name) || year || (self.is_verb(month) && lead.is_some()) || {
            let attribute = is_noun(self.sentence, at + len, self.context.language);
            !self.is_verb(month) && (led || !attribute)
        }
    }

    /// "spring 2025", "the summer of 2024".
    fn season_range(&self, at: usize) -> Option<LocalRange> {
        let word = self.sentence.word(at)?;
        let (_, month) = SEASONS.iter().find(|(name, _)| *name == word)?;
        let of = usize::from(self.is_of(at + 1));
        let year = self.unmarked_word(at + 1 + of).and_then(year)?;
        month_span(2 + of, Date::new(year, *month, 1).ok()?, 3)
    }

    /// "June 2025", and after a preposition "June".
    fn month_range(
        &self,
        at: usize,
        lead: Option<TimePreposition>,
        reference: Date,
    ) -> Option<LocalRange> {
        if let Some(span) = self.numbered_month(at, lead) {
            return Some(span);
        }
        let month = self.context.language.month(self.sentence.word(at)?)?;
        let of = usize::from(self.is_of(at + 1));
        let gap = self.sentence.gap(at + 1 + of) != Gap::Break;
        if let Some(year) = self
            .sentence
            .word(at + 1 + of)
            .filter(|_| gap)
            .and_then(year)
        {
            return month_span(2 + of, Date::new(year, month, 1).ok()?, 1);
        }
        let sure = lead.is_some_and(|lead| lead != TimePreposition::On)
            && of == 0
            && self.is_month_name(at, lead);
        let year = reference.year() - i16::from(month > reference.month());
        sure.then(|| month_span(1, Date::new(year, month, 1).ok()?, 1))
            .flatten()
    }

    /// "in 2026-06": a month in digits, after a preposition.
    fn numbered_month(&self, at: usize, lead: Option<TimePreposition>) -> Option<LocalRange> {
        let (head, tail) = self
            .sentence
            .word(at)
            .filter(|word| lead.is_some() && word.len() == 7)?
            .split_once('-')?;
        month_span(1, Date::new(year(head)?, tail.parse().ok()?, 1).ok()?, 1)
    }

    /// After a preposition: "Monday", "Friday last week".
    fn weekday_range(
        &self,
        at: usize,
        lead: Option<TimePreposition>,
        reference: Date,
    ) -> Option<LocalRange> {
        lead.filter(|lead| *lead != TimePreposition::In)?;
        let weekday = self
            .context
            .language
            .weekday(self.sentence.word(at)?)
            .filter(|_| self.is_day_name(at))?;
        let week = self
            .direction_at(at + 1)
            .filter(|_| self.sentence.gap(at + 1) == Gap::Space);
        let week = week.filter(|_| {
            self.unmarked_word(at + 2)
                .and_then(|word| self.context.language.unit(word))
                == Some(CalendarUnit::Week)
        });
        match week {
            Some(turn) => single_day(
                3,
                add_units(
                    first_day_of_period(self.today(), CalendarUnit::Week, period_offset(turn))?,
                    i64::from(weekday),
                    CalendarUnit::Day,
                )?,
            ),
            None => single_day(1, weekday_before(reference, weekday)?),
        }
    }

    /// After a preposition: "2024", unless it is a number of things ("in 2024 files").
    fn year_range(&self, at: usize, lead: Option<TimePreposition>) -> Option<LocalRange> {
        lead.filter(|lead| *lead != TimePreposition::On)?;
        let first = Date::new(year(self.sentence.word(at)?)?, 1, 1).ok()?;
        let next = self
            .sentence
            .words
            .get(at + 1)
            .filter(|word| word.gap == Gap::Space && !word.is_capitalised);
        let counted = next.is_some_and(|word| {
            let plural = word.text.len() > 2
                && word.text.ends_with('s')
                && !FALSE_PLURALS.contains(&word.text.as_str());
            plural || IRREGULAR_PLURALS.contains(&word.text.as_str())
        });
        (!counted)
            .then(|| day_range(1, first, add_units(first, 1, CalendarUnit::Year)?))
            .flatten()
    }

    /// The last, this or the next period of a unit.
    fn period(&self, unit: CalendarUnit, turn: RelativeDirection) -> Option<LocalRange> {
        let first = first_day_of_period(self.today(), unit, period_offset(turn))?;
        day_range(2, first, add_units(first, 1, unit)?)
    }

    /// The last, this or the next range of `count` months that begins with `month`. The last one is
    /// over; this one may be.
    fn relative_months(
        &self,
        turn: RelativeDirection,
        month: i8,
        count: i64,
    ) -> Option<LocalRange> {
        let today = self.today();
        let all = (-2..=2).filter_map(|years| {
            month_span(2, Date::new(today.year() + years, month, 1).ok()?, count)
        });
        let all: Vec<LocalRange> = all.collect();
        let noon = today.at(12, 0, 0, 0);
        let at = match turn {
            RelativeDirection::Last | RelativeDirection::Past => {
                all.iter().rposition(|span| span.until <= noon)
            }
            RelativeDirection::Next => all.iter().position(|span| span.from > noon),
            RelativeDirection::This => all
                .iter()
                .position(|span| span.from <= noon && noon < span.until)
                .or_else(|| all.iter().position(|span| span.from.year() == today.year())),
        };
        all.into_iter().nth(at?)
    }

    /// The direction that a word at an index names.
    fn direction_at(&self, at: usize) -> Option<RelativeDirection> {
        let word = self.sentence.word(at)?;
        DIRECTION_WORDS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, turn)| *turn)
    }

    /// The word at an index, if no mark comes before it.
    fn unmarked_word(&self, at: usize) -> Option<&str> {
        self.sentence
            .word(at)
            .filter(|_| self.sentence.gap(at) == Gap::Space)
    }

    fn is_of(&self, at: usize) -> bool {
        self.unmarked_word(at) == Some("of")
    }

    /// Whether the word may be a verb: a month's name in lower case that is also a verb.
    fn is_verb(&self, at: usize) -> bool {
        self.sentence
            .words
            .get(at)
            .is_some_and(|word| MONTH_VERBS.contains(&word.text.as_str()) && !word.is_capitalised)
    }

    /// Whether the word is a month rather than a verb, by its preposition and the next word.
    fn is_month_name(&self, at: usize, lead: Option<TimePreposition>) -> bool {
        let verb = self
            .unmarked_word(at + 1)
            .is_some_and(|next| AFTER_VERB.contains(&next));
        !self.is_verb(at)
            || (matches!(lead, Some(TimePreposition::In | TimePreposition::Since)) && !verb)
    }

    /// Whether the word is the name of a day. Short names are words of their own ("sun", "sat"):
    /// they count only if capitalised and not before a noun.
    fn is_day_name(&self, at: usize) -> bool {
        let word = self.sentence.words.get(at);
        word.is_some_and(|word| {
            word.text.len() > 5
                || (word.is_capitalised && !is_noun(self.sentence, at + 1, self.context.language))
        })
    }
}

/// The number of periods from the current one.
fn period_offset(turn: RelativeDirection) -> i64 {
    match turn {
        RelativeDirection::Last | RelativeDirection::Past => -1,
        RelativeDirection::This => 0,
        RelativeDirection::Next => 1,
    }
}

/// The length of units that are counted by the clock, in milliseconds; `None` for calendar units.
fn unit_ms(unit: CalendarUnit) -> Option<i64> {
    match unit {
        CalendarUnit::Minute => Some(60_000),
        CalendarUnit::Hour => Some(3_600_000),
        _ => None,
    }
}

/// A year in four digits, from 1900 to 2099.
fn year(word: &str) -> Option<i16> {
    let plain = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse()
        .ok()
        .filter(|year| plain && (1900..=2099).contains(year))
}

/// The last day with this name before a date: the name of a day never means the day itself.
fn weekday_before(date: Date, weekday: i8) -> Option<Date> {
    let back = (date.weekday().to_monday_zero_offset() - weekday - 1).rem_euclid(7) + 1;
    add_units(date, -i64::from(back), CalendarUnit::Day)
}

/// The range from the beginning of one day to that of another; `None` if it is empty.
fn day_range(len: usize, from: Date, until: Date) -> Option<LocalRange> {
    (from < until).then(|| LocalRange {
        len,
        from: from.at(0, 0, 0, 0),
        until: until.at(0, 0, 0, 0),
    })
}

fn single_day(len: usize, date: Date) -> Option<LocalRange> {
    day_range(len, date, date.tomorrow().ok()?)
}

fn month_span(len: usize, first: Date, count: i64) -> Option<LocalRange> {
    day_range(len, first, add_units(first, count, CalendarUnit::Month)?)
}

/// The range between two hours of a day; 24 and more are on the next day.
fn hour_range(len: usize, date: Date, from: i64, until: i64) -> Option<LocalRange> {
    let midnight = date.at(0, 0, 0, 0);
    let at = |hours: i64| {
        midnight
            .checked_add(jiff::Span::new().try_hours(hours).ok()?)
            .ok()
    };
    Some(LocalRange {
        len,
        from: at(from)?,
        until: at(until)?,
    })
}
