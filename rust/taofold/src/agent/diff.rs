//! Unified diffs of lines, identical to those of Python's `difflib`.
//!
//! An approval of a change is bound to its diff, and either runtime compares it at its use, so both
//! must compute the same diff. The algorithm is that of Ratcliff and Obershelp, without junk.

use std::collections::HashMap;

/// The number of context lines around a change.
const AROUND: usize = 2;
/// The number of lines from which lines that make up more than one percent start no match.
const POPULAR: usize = 200;

/// Returns the lines of the diff, without its two header lines.
pub(super) fn unified(before: &str, after: &str) -> Vec<String> {
    let one: Vec<&str> = before.split('\n').collect();
    let other: Vec<&str> = after.split('\n').collect();
    let mut lines = Vec::new();
    for group in groups(&Matcher::new(&one, &other).operations()) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        lines.push(format!(
            "@@ -{} +{} @@",
            range(first.one.0, last.one.1),
            range(first.other.0, last.other.1)
        ));
        for operation in &group {
            if operation.equal {
                lines.extend(
                    one[operation.one.0..operation.one.1]
                        .iter()
                        .map(|it| format!(" {it}")),
                );
                continue;
            }
            lines.extend(
                one[operation.one.0..operation.one.1]
                    .iter()
                    .map(|it| format!("-{it}")),
            );
            let added = &other[operation.other.0..operation.other.1];
            lines.extend(added.iter().map(|it| format!("+{it}")));
        }
    }
    lines
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[derive(Debug, Clone)]
struct Operation {
    equal: bool,
    one: (usize, usize),
    other: (usize, usize),
}

/// Splits operations at long runs of equal lines between changes.
fn groups(operations: &[Operation]) -> Vec<Vec<Operation>> {
    let mut operations = operations.to_vec();
    if let Some(first) = operations.first_mut().filter(|it| it.equal) {
        first.one.0 = first.one.0.max(first.one.1.saturating_sub(AROUND));
        first.other.0 = first.other.0.max(first.other.1.saturating_sub(AROUND));
    }
    if let Some(last) = operations.last_mut().filter(|it| it.equal) {
        last.one.1 = last.one.1.min(last.one.0 + AROUND);
        last.other.1 = last.other.1.min(last.other.0 + AROUND);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Operation> = Vec::new();
    for mut operation in operations {
        if operation.equal && operation.one.1 - operation.one.0 > 2 * AROUND {
            let mut head = operation.clone();
            head.one.1 = head.one.1.min(head.one.0 + AROUND);
            head.other.1 = head.other.1.min(head.other.0 + AROUND);
            group.push(head);
            groups.push(std::mem::take(&mut group));
            operation.one.0 = operation.one.0.max(operation.one.1.saturating_sub(AROUND));
            operation.other.0 = operation
                .other
                .0
                .max(operation.other.1.saturating_sub(AROUND));
        }
        group.push(operation);
    }
    if !(group.is_empty() || group.len() == 1 && group[0].equal) {
        groups.push(group);
    }
    groups
}

struct Matcher<'a> {
    one: &'a [&'a str],
    other: &'a [&'a str],
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Matcher<'a> {
    fn new(one: &'a [&'a str], other: &'a [&'a str]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, line) in other.iter().enumerate() {
            places.entry(line).or_default().push(index);
        }
        if other.len() >= POPULAR {
            let most = other.len() / 100 + 1;
            places.retain(|_, indexes| indexes.len() <= most);
        }
        Self { one, other, places }
    }

    /// Returns the longest run of equal lines in both ranges; the earliest one if several are
    /// equal.
    fn longest(&self, a: (usize, usize), b: (usize, usize)) -> (usize, usize, usize) {
        let mut best = (a.0, b.0, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in a.0..a.1 {
            let mut next = HashMap::new();
            for j in self.places.get(self.one[i]).into_iter().flatten().copied() {
                if j < b.0 {
                    continue;
                }
                if j >= b.1 {
                    break;
                }
                let before = j.checked_sub(1).and_then(|it| lengths.get(&it));
                let length = before.copied().unwrap_or(0) + 1;
                next.insert(j, length);
                if length > best.2 {
                    best = (i + 1 - length, j + 1 - length, length);
                }
            }
            lengths = next;
        }
        // Adjacent popular lines also match.
        while best.0 > a.0 && best.1 > b.0 && self.one[best.0 - 1] == self.other[best.1 - 1] {
            best = (best.0 - 1, best.1 - 1, best.2 + 1);
        }
        while best.0 + best.2 < a.1
            && best.1 + best.2 < b.1
            && self.one[best.0 + best.2] == self.other[best.1 + best.2]
        {
            best.2 += 1;
        }
        best
    }

    fn operations(&self) -> Vec<Operation> {
        let mut left = vec![((0, self.one.len()), (0, self.other.len()))];
        let mut blocks = Vec::new();
        while let Some((a, b)) = left.pop() {
            let (i, j, length) = self.longest(a, b);
            if length == 0 {
                continue;
            }
            blocks.push((i, j, length));
            if a.0 < i && b.0 < j {
                left.push(((a.0, i), (b.0, j)));
            }
            if i + length < a.1 && j + length < b.1 {
                left.push(((i + length, a.1), (j + length, b.1)));
            }
        }
        blocks.sort_unstable();
        blocks.push((self.one.len(), self.other.len(), 0));
        let mut operations = Vec::new();
        let (mut i, mut j) = (0, 0);
        let mut equal: Option<Operation> = None;
        for (a, b, length) in blocks {
            if i < a || j < b {
                operations.extend(equal.take());
                operations.push(Operation {
                    equal: false,
                    one: (i, a),
                    other: (j, b),
                });
            }
            (i, j) = (a + length, b + length);
            if length > 0 {
                // Adjacent blocks are merged.
                let begun = equal.take().unwrap_or(Operation {
                    equal: true,
                    one: (a, a),
                    other: (b, b),
                });
                equal = Some(Operation {
                    one: (begun.one.0, i),
                    other: (begun.other.0, j),
                    ..begun
                });
            }
        }
        operations.extend(equal);
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_difference_is_that_of_difflib() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nB\nc\nd\ne\nf\ng\nh\ni\n";
        assert_eq!(
            unified(before, after),
            [
                "@@ -1,4 +1,4 @@",
                " a",
                "-b",
                "+B",
                " c",
                " d",
                "@@ -7,3 +7,4 @@",
                " g",
                " h",
                "+i",
                " ",
            ]
        );
        assert_eq!(unified("", "x"), ["@@ -1 +1 @@", "-", "+x"]);
        assert!(unified("same", "same").is_empty());
    }
}
