//! System calls that a contained command must not make, as a program for bubblewrap's `--seccomp`.
//!
//! The filter equals that of the Python runtime (`taofold.tools.syscall_filter`), byte for byte. It
//! prevents keyrings, input pushed into a terminal, and setuid or setgid files. Refused calls fail
//! with EPERM. Calls that cannot be checked (`openat2`, io_uring, x32, 32-bit programs) fail with
//! ENOSYS, as if they did not exist. An unknown processor has no filter.
//!
//! Source: the kernel's `seccomp(2)`, `linux/filter.h`, and its tables of system calls.

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7FFF_0000;
/// `SECCOMP_RET_ERRNO` with EPERM, and with ENOSYS.
const REFUSED: u32 = 0x0005_0001;
const ABSENT: u32 = 0x0005_0026;
/// The bits of a mode that make a program run as its owner or group.
const SETID: u32 = 0o6000;
/// `O_CREAT` and the bit of `O_TMPFILE`: a call has a mode only with one of these.
const CREATES: u32 = 0o100 | 0o20_000_000;

/// The code, the steps to skip if it holds, the steps to skip otherwise, and the operand.
type Instruction = (u16, u8, u8, u32);

struct Processor {
    architecture: u32,
    keyrings: [u32; 3],
    ioctl: u32,
    /// Calls with a mode, and the index of that argument.
    modes: &'static [(u32, u32)],
    /// Calls with flags, and the index of that argument; the mode is the next argument.
    opens: &'static [(u32, u32)],
}

const X86_64: Processor = Processor {
    architecture: 0xC000_003E,
    keyrings: [248, 249, 250],
    ioctl: 16,
    modes: &[
        (90, 1),
        (91, 1),
        (268, 2),
        (452, 2),
        (85, 1),
        (133, 1),
        (259, 2),
    ],
    opens: &[(2, 1), (257, 2)],
};
const AARCH64: Processor = Processor {
    architecture: 0xC000_00B7,
    keyrings: [217, 218, 219],
    ioctl: 29,
    modes: &[(52, 1), (53, 2), (452, 2), (33, 2)],
    opens: &[(56, 2)],
};

/// Returns the filter as an array of `struct sock_filter`; empty for an unknown processor.
pub(super) fn program(machine: &str) -> Vec<u8> {
    let processor = match machine {
        "x86_64" => X86_64,
        "aarch64" => AARCH64,
        _ => return Vec::new(),
    };
    let mut bytes = Vec::new();
    for (code, holds, fails, operand) in steps(&processor) {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([holds, fails]);
        bytes.extend(operand.to_ne_bytes());
    }
    bytes
}

fn steps(processor: &Processor) -> Vec<Instruction> {
    let mut steps = vec![
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, processor.architecture),
        (RETURN, 0, 0, ABSENT),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, 0x4000_0000),
        (RETURN, 0, 0, ABSENT),
    ];
    // The numbers of openat2 and io_uring are the same on all processors.
    for number in [437, 425, 426, 427] {
        steps.extend(for_call(number, &[(RETURN, 0, 0, ABSENT)]));
    }
    for number in processor.keyrings {
        steps.extend(for_call(number, &[(RETURN, 0, 0, REFUSED)]));
    }
    let terminal = [
        (LOAD, 0, 0, argument(1)),
        (EQUAL, 1, 0, 0x5412),
        (EQUAL, 0, 1, 0x541C),
        (RETURN, 0, 0, REFUSED),
    ];
    steps.extend(for_call(processor.ioctl, &terminal));
    for (number, mode) in processor.modes {
        steps.extend(for_call(*number, &refuse_setid(*mode)));
    }
    for (number, flags) in processor.opens {
        // Without one of these flags the mode's register holds an older value.
        let mut asks = vec![(LOAD, 0, 0, argument(*flags)), (ANY_BIT, 0, 3, CREATES)];
        asks.extend(refuse_setid(flags + 1));
        steps.extend(for_call(*number, &asks));
    }
    steps.push((RETURN, 0, 0, ALLOW));
    steps
}

/// Returns the steps for one system call. Cases that they do not decide are allowed.
fn for_call(number: u32, steps: &[Instruction]) -> Vec<Instruction> {
    let skipped = u8::try_from(steps.len() + 1).unwrap_or(u8::MAX);
    let mut decided = vec![(EQUAL, 0, skipped, number)];
    decided.extend(steps);
    decided.push((RETURN, 0, 0, ALLOW));
    decided
}

fn refuse_setid(mode: u32) -> [Instruction; 3] {
    [
        (LOAD, 0, 0, argument(mode)),
        (ANY_BIT, 0, 1, SETID),
        (RETURN, 0, 0, REFUSED),
    ]
}

/// Returns the offset of an argument's lower half, which both processors store first.
fn argument(index: u32) -> u32 {
    16 + 8 * index
}

#[cfg(test)]
mod tests {
    use blake2::digest::consts::U8;
    use blake2::{Blake2b, Digest};

    use super::program;

    #[test]
    fn the_filter_is_that_of_the_python_runtime() {
        let digest = |machine: &str| crate::content::hex(&Blake2b::<U8>::digest(program(machine)));
        assert_eq!(digest("x86_64"), "148432a1996f3c2a");
        assert_eq!(digest("aarch64"), "00dc5227be4ddfb6");
        assert!(program("pdp11").is_empty());
    }
}
