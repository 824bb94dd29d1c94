//! The configurations. Numbers name the subject: 1 durability, 2 first start, 3 two processes, 4 leaders and late requests,
//! 5 soft rollback, 6 epochs run out, 7 the fast path R1a, 8 the ledger and the brokers change, 9 rules that hold together.

use crate::broker::BrokerRules;
use crate::configuration::Variant::{self, *};
use crate::configuration::{Case, Config, EPOCHS};
use crate::property::*;
use crate::state::{Budget, COPY_PARTS, COPY_WHOLE};

const NONE: Budget = Budget {
    crash: 0,
    timeout: 0,
    delay: 0,
    late_add: 0,
    lost: 0,
    resend: 0,
    give_up: 0,
    vote_no: 0,
    input: 0,
    late_init: 0,
    failover: 0,
    forget: 0,
    level: 0,
    compact: 0,
    copy: 0,
    second: 0,
};

const BASE: Config = Config {
    broker: BrokerRules { epoch_max: EPOCHS, verify: true, fence_takes_two: false },
    tv2: true,
    checkpoints: 2,
    outputs: 1,
    two_processes: false,
    durability: false,
    parallel: false,
    budget: NONE,
    fences_max: 0,
    tries: 3,
    strict: false,
    variant: None,
};

const DURABLE: Config = Config {
    durability: true,
    checkpoints: 3,
    budget: Budget { crash: 1, vote_no: 1, ..NONE },
    ..BASE
};
const FIRST: Config = Config {
    checkpoints: 1,
    budget: Budget { crash: 3, input: 2, lost: 1, give_up: 1, ..NONE },
    ..BASE
};
const TWO: Config = Config {
    two_processes: true,
    tries: 2,
    fences_max: 9,
    budget: Budget { copy: COPY_WHOLE, second: 1, ..NONE },
    ..BASE
};
const EMPTY: Config = Config { budget: Budget { second: 1, ..NONE }, ..TWO };
const LATE: Config = Config {
    checkpoints: 3,
    outputs: 2,
    budget: Budget { delay: 1, vote_no: 1, timeout: 1, crash: 1, ..NONE },
    ..BASE
};
const FORGOTTEN: Config =
    Config { checkpoints: 3, budget: Budget { delay: 1, forget: 1, timeout: 1, ..NONE }, ..LATE };
const SOFT: Config = Config {
    parallel: true,
    budget: Budget { timeout: 1, vote_no: 1, lost: 1, resend: 1, give_up: 1, ..NONE },
    ..BASE
};
const EXHAUSTED: Config = Config {
    broker: BrokerRules { epoch_max: 5, ..BASE.broker },
    checkpoints: 3,
    budget: Budget { timeout: 1, crash: 1, lost: 1, failover: 1, resend: 1, give_up: 1, ..NONE },
    ..BASE
};
const FAST: Config = Config {
    parallel: true,
    budget: Budget { crash: 1, ..NONE },
    variant: Some(ResumeCommit),
    ..BASE
};
const CHANGING: Config =
    Config { budget: Budget { level: 1, timeout: 1, resend: 1, vote_no: 1, ..NONE }, ..BASE };

const fn tv1(config: Config) -> Config {
    Config { tv2: false, ..config }
}

/// Brokers before 3.6, or with `transaction.partition.verification.enable=false`.
const fn unverified(config: Config) -> Config {
    Config { tv2: false, broker: BrokerRules { verify: false, ..config.broker }, ..config }
}

const fn with(config: Config, budget: Budget) -> Config {
    Config { budget, ..config }
}

const fn wrong(config: Config, variant: Variant) -> Config {
    Config { variant: Some(variant), ..config }
}

const fn clean(name: &'static str, config: Config) -> Case {
    Case { name, config, violates: None, long: false }
}

const fn long(name: &'static str, config: Config) -> Case {
    Case { name, config, violates: None, long: true }
}

const fn mutant(name: &'static str, violates: &'static str, config: Config) -> Case {
    Case { name, config, violates: Some(violates), long: false }
}

pub(crate) fn cases() -> Vec<Case> {
    let twice = BrokerRules { fence_takes_two: true, ..EXHAUSTED.broker };
    let crash = |config: Config| with(config, Budget { crash: 1, ..config.budget });
    let timeout = |config: Config| with(config, Budget { timeout: 1, ..config.budget });
    let vote_no = |config: Config| with(config, Budget { vote_no: 1, ..config.budget });
    let give_up = |config: Config| with(config, Budget { give_up: 1, ..config.budget });
    let compact = |config: Config| with(config, Budget { compact: 1, ..config.budget });
    let torn = |config: Config| with(config, Budget { copy: COPY_PARTS, ..config.budget });
    let uncounted = |config: Config| Config { fences_max: 0, ..config };
    let durable = |config: Config| Config { durability: true, ..config };
    let three = |config: Config| Config { checkpoints: 3, ..config };
    // Everything that may happen to one process at once.
    let storm = Budget {
        crash: 1,
        timeout: 1,
        lost: 1,
        resend: 1,
        give_up: 1,
        vote_no: 1,
        late_init: 1,
        compact: 1,
        ..NONE
    };
    let storm = Config { outputs: 2, parallel: true, budget: storm, ..BASE };
    let late_storm = Config {
        outputs: 2,
        budget: Budget {
            crash: 1,
            timeout: 1,
            delay: 1,
            late_add: 1,
            level: 1,
            vote_no: 1,
            ..NONE
        },
        ..BASE
    };
    let disk_storm =
        with(DURABLE, Budget { crash: 2, timeout: 1, vote_no: 1, lost: 1, compact: 1, ..NONE });
    let faults = |config: Config| Config {
        budget: Budget {
            crash: 1,
            timeout: 1,
            vote_no: 1,
            lost: 1,
            give_up: 1,
            compact: 1,
            ..config.budget
        },
        ..uncounted(config)
    };
    vec![
        // 1 durability
        clean("1a a crash and a rollback", DURABLE),
        clean("1d two crashes", with(DURABLE, Budget { crash: 2, ..DURABLE.budget })),
        long(
            "1d three crashes and two rollbacks",
            with(DURABLE, Budget { crash: 3, vote_no: 2, ..NONE }),
        ),
        mutant(
            "1b deltas deleted before META has passed them",
            NO_FALSE_STOP,
            wrong(DURABLE, DeleteEarly),
        ),
        mutant("1c delta not synced before EndTxn", NO_FALSE_STOP, wrong(DURABLE, UnsyncedDelta)),
        mutant(
            "1e deltas deleted before META's folder is synced",
            NO_FALSE_STOP,
            wrong(DURABLE, DeleteUnsynced),
        ),
        mutant("1f META written in place", NO_FALSE_STOP, wrong(DURABLE, MetaInPlace)),
        mutant(
            "1g changes applied before their commit is known",
            NO_FALSE_STOP,
            wrong(DURABLE, ApplyEarly),
        ),
        // 2 first start
        clean("2a three crashes, new input", FIRST),
        mutant("2b META after record 0", NO_FALSE_STOP, wrong(FIRST, MetaAfterRecord)),
        mutant("2c the look decides", NO_FALSE_STOP, wrong(DURABLE, LookDecides)),
        // 3 two processes
        clean("3a copy at one moment, TV2", TWO),
        clean("3b same, TV1", tv1(TWO)),
        clean("3c empty directory, TV2", EMPTY),
        clean("3d same, TV1", tv1(EMPTY)),
        clean("3e as 3a, and a vote that fails", vote_no(TWO)),
        clean("3f as 3b, and a vote that fails", vote_no(tv1(TWO))),
        clean("3g as 3a, and no answer to EndTxn", give_up(TWO)),
        clean("3h as 3b, and no answer to EndTxn", give_up(tv1(TWO))),
        mutant(
            "3i a starter never gives up",
            BOUNDED,
            Config { checkpoints: 1, ..wrong(TWO, NeverGivesUp) },
        ),
        mutant(
            "3j X without reading the ledger",
            EXACTLY_ONCE,
            wrong(vote_no(uncounted(TWO)), RollbackUnread),
        ),
        mutant("3k no owner check", OWNERS, wrong(uncounted(TWO), NoOwnerCheck)),
        mutant(
            "3l TV1, C6 with InitProducerId(-1, -1)",
            EXACTLY_ONCE,
            wrong(tv1(uncounted(TWO)), BumpUnnamed),
        ),
        mutant("3m no look before InitProducerId is repeated", BOUNDED, wrong(TWO, NoRelook)),
        mutant(
            "3n strict: an owner may commit between look and fence",
            NOBODY_HURT,
            Config { strict: true, ..TWO },
        ),
        mutant("3o strict, no look", NOBODY_HURT, Config { strict: true, ..wrong(TWO, NoLook) }),
        clean(
            "3p TV1 without verification, a late Produce",
            with(unverified(TWO), Budget { delay: 1, ..TWO.budget }),
        ),
        clean("3q copy in three parts, TV2", torn(uncounted(TWO))),
        clean("3r copy in three parts of a directory at work", durable(torn(uncounted(TWO)))),
        clean("3s a crash and a timeout, TV2", crash(timeout(uncounted(TWO)))),
        clean("3t same, TV1", tv1(crash(timeout(uncounted(TWO))))),
        long("3s fences counted", Config { fences_max: 24, ..crash(timeout(TWO)) }),
        long("3t fences counted", Config { fences_max: 24, ..tv1(crash(timeout(TWO))) }),
        long("3s three checkpoints", three(crash(timeout(uncounted(TWO))))),
        long("3t three checkpoints", tv1(three(crash(timeout(uncounted(TWO)))))),
        long("3r three checkpoints, a crash", three(crash(durable(torn(uncounted(TWO)))))),
        mutant(
            "3u attempts told apart by number alone",
            STATE_IS_OUTPUT,
            wrong(uncounted(TWO), NumbersOnly),
        ),
        mutant(
            "3v deltas replayed by number",
            STATE_IS_OUTPUT,
            wrong(durable(torn(crash(uncounted(TWO)))), ReplayByNumber),
        ),
        mutant(
            "3w the ledger read before the fence",
            EXACTLY_ONCE,
            wrong(uncounted(TWO), ReadBeforeFence),
        ),
        // 4 leaders, late requests
        clean("4a TV2", LATE),
        clean("4b TV1 without verification", unverified(LATE)),
        mutant(
            "4c TV1 without verification, X sends EndTxn(abort)",
            EXACTLY_ONCE,
            wrong(unverified(LATE), AbortFirst),
        ),
        clean("4d TV1 with verification, X sends EndTxn(abort)", tv1(wrong(LATE, AbortFirst))),
        clean("4e TV2, X sends EndTxn(abort)", wrong(LATE, AbortFirst)),
        mutant(
            "4f TV1 without verification, a leader forgets",
            EXACTLY_ONCE,
            unverified(FORGOTTEN),
        ),
        clean("4g TV1 with verification, a leader forgets", tv1(FORGOTTEN)),
        clean("4h TV2, a leader forgets", FORGOTTEN),
        mutant(
            "4i TV1, no new epoch after a commit",
            EXACTLY_ONCE,
            wrong(tv1(with(LATE, Budget { resend: 1, ..NONE })), NoBump),
        ),
        mutant(
            "4j TV1, none after the owner record",
            EXACTLY_ONCE,
            wrong(tv1(with(LATE, Budget { resend: 1, ..NONE })), NoBumpAfterOwn),
        ),
        clean(
            "4k TV1, a late AddPartitionsToTxn",
            tv1(with(LATE, Budget { late_add: 1, delay: 0, ..LATE.budget })),
        ),
        clean(
            "4l TV1 without verification, late AddPartitionsToTxn and Produce",
            unverified(with(LATE, Budget { late_add: 1, ..LATE.budget })),
        ),
        // 5 soft rollback
        clean("5a TV2", three(SOFT)),
        clean("5b TV1", tv1(three(SOFT))),
        clean("5c TV2, a crash", crash(SOFT)),
        clean("5d TV1, a crash", tv1(crash(SOFT))),
        clean(
            "5e TV2, a late InitProducerId",
            with(SOFT, Budget { crash: 1, late_init: 1, ..NONE }),
        ),
        clean(
            "5f TV1, a late InitProducerId",
            tv1(with(SOFT, Budget { crash: 1, late_init: 1, ..NONE })),
        ),
        // 6 epochs run out
        clean("6a TV2", EXHAUSTED),
        clean("6b TV1", tv1(EXHAUSTED)),
        clean("6c TV2, a fence takes two epochs", Config { broker: twice, ..EXHAUSTED }),
        clean("6d TV2, EndTxn may cross the limit", wrong(EXHAUSTED, CrossLimit)),
        mutant(
            "6e same, a fence takes two epochs",
            NOT_STUCK,
            Config { broker: twice, ..wrong(EXHAUSTED, CrossLimit) },
        ),
        clean(
            "6f TV1 without verification, a late Produce",
            Config {
                outputs: 2,
                ..unverified(with(EXHAUSTED, Budget { timeout: 1, delay: 1, vote_no: 1, ..NONE }))
            },
        ),
        // 7 the fast path
        mutant("7a R1a while the delta is written beside the flush", EXACTLY_ONCE, FAST),
        clean(
            "7b R1a, the delta after all acknowledgements",
            Config { parallel: false, ..with(FAST, Budget { crash: 2, ..NONE }) },
        ),
        // 8 the ledger and the brokers change
        clean(
            "8a the ledger is compacted, two crashes",
            compact(with(BASE, Budget { crash: 2, vote_no: 1, ..NONE })),
        ),
        clean("8b the ledger is compacted, two processes", compact(TWO)),
        mutant(
            "8c the ledger read at META's offset alone",
            NO_FALSE_STOP,
            wrong(compact(DURABLE), ReadAtOffset),
        ),
        clean("8d from TV1 to TV2", tv1(CHANGING)),
        clean("8e from TV2 to TV1", CHANGING),
        clean(
            "8f from TV1 to TV2, two processes",
            tv1(with(uncounted(TWO), Budget { level: 1, ..TWO.budget })),
        ),
        mutant(
            "8g a change to TV2 counts at once",
            EXACTLY_ONCE,
            tv1(wrong(CHANGING, SwitchAtOnce)),
        ),
        // 9 all together
        clean("9a TV2", storm),
        clean("9b TV1", tv1(storm)),
        clean("9c late requests and a change of level, TV2 first", late_storm),
        clean("9d same, TV1 first", tv1(late_storm)),
        clean("9e disk", disk_storm),
        long("9f two processes, TV2", faults(TWO)),
        long("9g two processes, TV1", tv1(faults(TWO))),
        long(
            "9h two processes, TV1 without verification, a late Produce",
            unverified(with(faults(TWO), Budget { delay: 1, ..faults(TWO).budget })),
        ),
        long(
            "9i two processes, copy in three parts of a directory at work, a crash, a timeout",
            durable(torn(crash(timeout(uncounted(TWO))))),
        ),
    ]
}
