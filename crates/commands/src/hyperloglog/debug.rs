//! PFDEBUG and PFSELFTEST, which Redis's own tests use.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::Txn;
use keyspace::hyperloglog::{COUNT, HyperLogLog, Registers, estimate, place};

pub(crate) const PFDEBUG: CommandSpec = CommandSpec {
    name: "pfdebug",
    summary: "Internal commands for debugging HyperLogLog values",
    complexity: "N/A",
    since: "2.8.9",
    group: Group::Hyperloglog,
    arity: 3,
    flags: WRITE | DENYOOM | ADMIN,
    acl: ACL_HYPERLOGLOG,
    doc_flags: &["syscmd"],
    keys: &[KeySpec::one(2, KEY_RW | KEY_ACCESS)],
    args: &[string("subcommand"), key("key", 0)],
    run: Run::Keys(pfdebug),
    ..CommandSpec::EMPTY
};

fn pfdebug(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = call.key(0);
    let Some(mut sketch) = txn.hyperloglogs().find_mut(call.db(), &key)? else {
        return Err("ERR The specified key does not exist".into());
    };
    if call.is(1, "GETREG") {
        if sketch.is_sparse() {
            store_dense(call, txn, &mut sketch)?;
        }
        let mut registers = [0; COUNT];
        sketch.raise_all(&mut registers)?;
        call.out.array(COUNT);
        registers.iter().for_each(|value| call.out.integer(i64::from(*value)));
    } else if call.is(1, "DECODE") {
        if !sketch.is_sparse() {
            return Err("ERR HLL encoding is not sparse".into());
        }
        call.out.bulk(spelled(&sketch));
    } else if call.is(1, "ENCODING") {
        call.out.simple(if sketch.is_sparse() { "sparse" } else { "dense" });
    } else if call.is(1, "TODENSE") {
        let sparse = sketch.is_sparse();
        if sparse {
            store_dense(call, txn, &mut sketch)?;
        }
        call.out.integer(i64::from(sparse));
    } else {
        // C prints the name up to a zero byte.
        let name = call.args[1].split(|byte| *byte == 0).next().unwrap_or_default();
        let text = [&b"ERR Unknown PFDEBUG subcommand '"[..], name, b"'"].concat();
        return Err(Failure::text(text));
    }
    Ok(())
}

/// Stores the same registers in the dense encoding, without breaking watches.
fn store_dense(call: &mut Call<'_>, txn: &mut Txn<'_>, sketch: &mut HyperLogLog) -> Done {
    sketch.make_dense()?;
    let from = txn.pending_changes();
    txn.hyperloglogs().set(call.db(), &call.key(0), sketch)?;
    txn.mark_metadata_only(from);
    call.wrote();
    Ok(())
}

fn spelled(sketch: &HyperLogLog) -> String {
    let runs = sketch.runs().map(|run| match run.value {
        0 if run.is_long() => format!("Z:{}", run.len),
        0 => format!("z:{}", run.len),
        value => format!("v:{value},{}", run.len),
    });
    runs.collect::<Vec<_>>().join(" ")
}

pub(crate) const PFSELFTEST: CommandSpec = CommandSpec {
    name: "pfselftest",
    summary: "An internal command for testing HyperLogLog values",
    complexity: "N/A",
    since: "2.8.9",
    group: Group::Hyperloglog,
    arity: 1,
    flags: ADMIN,
    acl: ACL_HYPERLOGLOG,
    doc_flags: &["syscmd"],
    run: Run::Session(pfselftest),
    ..CommandSpec::EMPTY
};

/// The number of elements that the self-test adds.
const ELEMENTS: u32 = 100_000;

/// Compares both encodings with an array of registers, and the estimate with the number of
/// elements.
fn pfselftest(call: &mut Call<'_>) -> Done {
    let mut expect = [0; COUNT];
    let (mut sparse, mut dense) = (HyperLogLog::empty(), HyperLogLog::empty());
    dense.make_dense()?;
    for n in 1..=ELEMENTS {
        let (register, value) = place(&n.to_le_bytes());
        let higher = value > expect[register];
        expect[register] = value.max(expect[register]);
        let changed = (sparse.raise(register, value, 3000)?, dense.raise(register, value, 0)?);
        if changed != (higher, higher) {
            let text = format!("TESTFAILED Register {register} should have changed: {higher}");
            return Err(Failure::text(text));
        }
        if n.is_power_of_two() || n == ELEMENTS {
            check_count(&expect, n)?;
        }
    }
    for sketch in [sparse, dense] {
        let mut found = [0; COUNT];
        sketch.raise_all(&mut found)?;
        if found != expect {
            return Err("TESTFAILED Registers differ from what was set".into());
        }
    }
    call.out.ok();
    Ok(())
}

/// Checks that the estimate is within four standard errors.
fn check_count(registers: &Registers, elements: u32) -> Done {
    let estimated = estimate(registers);
    let allowed = (f64::from(elements) * 4.0 * 1.04 / (COUNT as f64).sqrt()).max(1.0);
    if (estimated as f64 - f64::from(elements)).abs() > allowed {
        let text = format!("TESTFAILED Too big error. card:{elements} estimated:{estimated}");
        return Err(Failure::text(text));
    }
    Ok(())
}
