//! TIME.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

pub(crate) const TIME: CommandSpec = CommandSpec {
    name: "time",
    summary: "Return the current server time",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Server,
    arity: 1,
    flags: LOADING | STALE | FAST,
    tips: &["nondeterministic_output"],
    run: Run::Session(time),
    ..CommandSpec::EMPTY
};

fn time(call: &mut Call<'_>) -> Done {
    let micros = call.now_ns / 1000;
    call.out.array(2);
    call.out.bulk(itoa::Buffer::new().format(micros / 1_000_000));
    call.out.bulk(itoa::Buffer::new().format(micros % 1_000_000));
    Ok(())
}
