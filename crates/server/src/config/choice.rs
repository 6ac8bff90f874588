//! Values that are one of a few names, as types.

use super::kind::Kind;
use super::value::Value;

macro_rules! choices {
    ($(
        $(#[doc = $doc:literal])*
        $type:ident { $($(#[doc = $what:literal])* $choice:ident = $name:literal),* $(,)? }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $type {
                $($(#[doc = $what])* #[doc = concat!("`", $name, "`")] $choice,)*
            }

            impl $type {
                /// The names, in the order in which errors list them.
                pub const NAMES: &'static [&'static str] = &[$($name),*];

                /// Returns the name.
                pub const fn name(self) -> &'static str {
                    match self {
                        $($type::$choice => $name,)*
                    }
                }
            }

            impl Value for $type {
                fn read(_: Kind, text: &[u8]) -> Option<$type> {
                    [$($type::$choice),*].into_iter().find(|one| one.name().as_bytes() == text)
                }

                fn text(&self, _: Kind) -> Vec<u8> {
                    self.name().into()
                }
            }
        )*
    };
}

choices! {
    /// `cluster-preferred-endpoint-type`: what clients are told of another node.
    EndpointType {
        Ip = "ip",
        HostName = "hostname",
        Unknown = "unknown-endpoint",
    }

    /// `backend`: the store that a start serves.
    RequestedBackend {
        Auto = "auto",
        Pmem = "pmem",
        Journal = "journal",
        Aof = "aof",
    }

    /// `other-stores`: what a start does about them.
    OtherStores {
        Refuse = "refuse",
        Ignore = "ignore",
    }

    /// `domain`: how far a write has to get.
    RequestedDomain {
        Auto = "auto",
        Clwb = "clwb",
        Eadr = "eadr",
        Msync = "msync",
        Process = "process",
    }

    /// `emulate-media`: the medium that is emulated.
    EmulatedMedium {
        No = "no",
        Optane = "optane",
        NvdimmN = "nvdimm-n",
        Cxl = "cxl",
    }

    /// `log-format`: how a line is written.
    LogFormat {
        Text = "text",
        Json = "json",
    }

    /// `tls-auth-clients`: whether clients need a certificate.
    ClientCertificates {
        No = "no",
        Yes = "yes",
        Optional = "optional",
    }

    /// `tls-auth-clients-user`: the part of a certificate that names a user.
    UserOfCertificate {
        Off = "off",
        CommonName = "CN",
    }

    /// `acl-pubsub-default`: the channels of new users.
    NewUserChannels {
        All = "allchannels",
        Reset = "resetchannels",
    }

    /// `enable-debug-command` and the like: who may do it.
    Permission {
        No = "no",
        Yes = "yes",
        Local = "local",
    }

    /// `repl-diskless-load`: whether a dump may replace data before it is complete.
    DisklessLoad {
        Disabled = "disabled",
        OnEmptyDb = "on-empty-db",
        SwapDb = "swapdb",
        FlushBeforeLoad = "flush-before-load",
    }

    /// `appendfsync`: when what was appended is synced.
    AppendFsync {
        EverySec = "everysec",
        Always = "always",
        No = "no",
    }

    /// `maxmemory-policy`: which keys are evicted.
    EvictionPolicy {
        VolatileLru = "volatile-lru",
        VolatileLfu = "volatile-lfu",
        VolatileRandom = "volatile-random",
        VolatileTtl = "volatile-ttl",
        AllkeysLru = "allkeys-lru",
        AllkeysLfu = "allkeys-lfu",
        AllkeysRandom = "allkeys-random",
        NoEviction = "noeviction",
    }

    /// `oom-score-adj`: what the values are added to.
    OomScoreAdj {
        No = "no",
        Yes = "yes",
        Relative = "relative",
        Absolute = "absolute",
    }

    /// `loglevel`: the least important lines that are logged.
    LogLevel {
        Debug = "debug",
        Verbose = "verbose",
        Notice = "notice",
        Warning = "warning",
    }

    /// `supervised`: how a supervisor is notified when the server is ready.
    Supervised {
        Upstart = "upstart",
        Systemd = "systemd",
        Auto = "auto",
        No = "no",
    }
}
