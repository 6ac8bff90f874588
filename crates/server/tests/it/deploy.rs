//! The files in `deploy/` agree with each other, with the directives and with a real scrape.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use server::cli::{self, Request};
use server::config::Values;
use server::config::file::Reader;
use testkit::Launch;
use yaml_rust2::{Yaml, YamlLoader};

use crate::metrics::{Samples, scrape, start};

fn path(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the settings of a configuration file and the options of a command line, which must not
/// name directories: those of containers and packages do not exist here.
fn configured(file: Option<&str>, options: &[&str]) -> Values {
    let words: Vec<Vec<u8>> = options.iter().map(|word| word.as_bytes().to_vec()).collect();
    let Request::Serve(arguments) = cli::parse(&words) else { panic!("{options:?}") };
    let file = file.map(path);
    let read = Reader::read(file.as_deref(), &arguments.lines);
    read.unwrap_or_else(|error| panic!("{file:?} {options:?}: {error}")).0
}

fn words(list: &Yaml) -> Vec<&str> {
    let words = list.as_vec().unwrap_or_else(|| panic!("no list: {list:?}"));
    words.iter().map(|word| word.as_str().unwrap_or_else(|| panic!("{word:?}"))).collect()
}

/// Returns the metrics that an expression names.
fn names(expression: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c| !is_part(c));
    let is_metric = |word: &&str| {
        ["perdura_", "process_"].iter().any(|start| word.len() > 8 && word.starts_with(start))
    };
    words.filter(is_metric).collect()
}

/// Returns all metrics of servers of all backends, after events of each kind.
fn everything() -> Samples {
    let mut all = Samples::new();
    let launches =
        [Launch::perdura_journal("everysec"), Launch::perdura_aof("no"), Launch::perdura_pmem()];
    for launch in launches {
        let (server, port) = start(launch);
        let mut client = server.client();
        client.check("SET k v EX 100", "OK");
        assert!(client.run("LPOP k").is_error());
        all.extend(scrape(port));
    }
    let (primary, of_primary) =
        start(Launch::perdura_volatile().args(["--min-replicas-to-write", "1"]));
    let (replica, of_replica) = start(Launch::perdura_volatile());
    replica.client().check(&format!("REPLICAOF 127.0.0.1 {}", primary.port()), "OK");
    let has_acknowledged = |all: &Samples| has(all, "perdura_connected_slave_lag_bytes", None);
    while !has_acknowledged(&all) {
        std::thread::sleep(Duration::from_millis(10));
        // Refused until the replica counts.
        primary.client().run("SET k v");
        all.extend(scrape(of_primary));
    }
    all.extend(scrape(of_replica));
    all
}

fn has(all: &Samples, metric: &str, label: Option<&str>) -> bool {
    all.keys().any(|series| {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let is_there = |label: &str| {
            labels.contains(&format!(",{label}=\"")) || labels.starts_with(&format!("{label}=\""))
        };
        name == metric && label.is_none_or(is_there)
    })
}

/// Returns the labels that a text refers to as `{{label}}` or `{{ $labels.label }}`, except those
/// that Prometheus adds.
fn labels(text: &str) -> Vec<&str> {
    let placeholders = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let names = placeholders.filter_map(|inner| {
        let inner = inner.trim();
        inner.strip_prefix("$labels.").or_else(|| (!inner.starts_with('$')).then_some(inner))
    });
    names.filter(|name| !["instance", "job"].contains(name)).collect()
}

#[test]
fn the_board_and_the_rules_name_metrics_that_a_server_has() {
    let all = everything();
    let mut expressions: Vec<(String, String)> = Vec::new();
    let board: serde_json::Value =
        serde_json::from_str(&text("grafana/perdura.json")).expect("JSON");
    for panel in board["panels"].as_array().expect("panels") {
        assert!(panel["title"].is_string() && panel["gridPos"].is_object(), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        let is_whole = |text: &serde_json::Value| text.as_str().is_some_and(|s| s.ends_with('.'));
        assert!(is_whole(&panel["description"]), "no description: {panel}");
        let is_name = panel["options"]["textMode"] == "name";
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().expect("a unit");
        assert!(is_name || unit != "none", "{panel}");
        for target in panel["targets"].as_array().expect("targets") {
            let text = |name: &str| target[name].as_str().expect("a text").to_owned();
            assert!(text("legendFormat").starts_with("{{instance}}"), "which server? {target}");
            expressions.push((text("expr"), text("legendFormat")));
        }
    }
    let of_board = expressions.len();
    let rules = yaml("prometheus/alerts.yml");
    for rule in rules[0]["groups"][0]["rules"].as_vec().expect("rules") {
        let summary = rule["annotations"]["summary"].as_str().expect("a summary");
        let severity = rule["labels"]["severity"].as_str().expect("a severity");
        assert!(["critical", "warning", "info"].contains(&severity), "{rule:?}");
        expressions.push((rule["expr"].as_str().expect("a text").to_owned(), summary.to_owned()));
    }
    assert!(of_board > 40 && expressions.len() > of_board + 10);
    for (expression, legend) in &expressions {
        let named = names(expression);
        assert!(!named.is_empty() || expression.starts_with("up"), "{expression}");
        for metric in &named {
            assert!(has(&all, metric, None), "no server has {metric}: {expression}");
        }
        for label in labels(legend) {
            let is_there = |metric: &&str| has(&all, metric, Some(label));
            assert!(named.iter().any(is_there), "no label {label} in {expression}");
        }
    }
    // The guide explains each alert, and names no metric that does not exist.
    let guide = fs::read_to_string(path("../docs/operating.md")).expect("the guide");
    for rule in rules[0]["groups"][0]["rules"].as_vec().expect("rules") {
        let name = rule["alert"].as_str().expect("a name");
        assert!(guide.contains(&format!("`{name}`")), "docs/operating.md does not explain {name}");
    }
    for metric in guide.split('`').skip(1).step_by(2).flat_map(names) {
        assert!(has(&all, metric, None), "docs/operating.md: no server has {metric}");
    }
}

/// `promtool test rules alerts_test.yml` runs these cases.
#[test]
fn each_rule_has_a_case_in_which_it_comes() {
    let rules = yaml("prometheus/alerts.yml");
    let rules = rules[0]["groups"][0]["rules"].as_vec().expect("rules");
    let tests = yaml("prometheus/alerts_test.yml");
    let tests = tests[0]["tests"].as_vec().expect("tests");
    let cases = tests.iter().flat_map(|test| test["alert_rule_test"].as_vec()).flatten();
    let comes = |case: &&Yaml| case["exp_alerts"].as_vec().is_some_and(|all| !all.is_empty());
    let have: BTreeSet<_> =
        cases.filter(comes).map(|case| case["alertname"].as_str().expect("a name")).collect();
    let all: BTreeSet<_> =
        rules.iter().map(|rule| rule["alert"].as_str().expect("a name")).collect();
    assert_eq!(have, all);
}

#[test]
fn the_pod_has_the_ports_and_probes_of_its_configuration() {
    let set = &yaml("kubernetes/base/statefulset.yaml")[0];
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let command = words(&container["command"]);
    assert_eq!(command[..2], ["/usr/bin/perdura-server", "/etc/perdura/perdura.conf"]);
    assert_eq!(command[2..], ["--dir", "/data"]);
    for conf in ["kubernetes/base/perdura.conf", "kubernetes/fsdax/perdura.conf"] {
        let values = configured(Some(conf), &[]);
        let port = |name: &str| {
            let ports = container["ports"].as_vec().expect("ports");
            let of_name = ports.iter().find(|port| port["name"].as_str() == Some(name));
            of_name.and_then(|port| port["containerPort"].as_i64()).expect("a port")
        };
        assert_eq!(port("redis"), i64::from(values.port));
        assert_eq!(port("metrics"), i64::from(values.metrics_port));
        // Kubelet and Prometheus do not come from the pod itself.
        assert_eq!(
            (values.bind.to_text().as_str(), values.metrics_bind.to_text().as_str()),
            ("*", "*")
        );
        let annotations = &set["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(
            annotations["prometheus.io/port"].as_str(),
            Some(&*values.metrics_port.to_string())
        );
        let mounts = container["volumeMounts"].as_vec().expect("mounts");
        let is_below_a_mount = |path: &str| {
            let mounts = mounts.iter().filter_map(|mount| mount["mountPath"].as_str());
            mounts.into_iter().any(|mount| path.starts_with(mount))
        };
        assert!(is_below_a_mount(&values.aclfile.to_text()) && is_below_a_mount("/data"));
    }
    for (probe, path) in
        [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        let get = &container[probe]["httpGet"];
        assert_eq!((get["path"].as_str(), get["port"].as_str()), (Some(path), Some("metrics")));
    }
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    let user = pod["securityContext"]["runAsUser"].as_i64().expect("a user");
    assert!(text("Containerfile").contains(&format!("\nUSER {user}:{user}\n")));
    let volumes: Vec<&str> = pod["volumes"]
        .as_vec()
        .expect("volumes")
        .iter()
        .chain(set["spec"]["volumeClaimTemplates"].as_vec().expect("templates"))
        .map(|volume| volume["name"].as_str().or(volume["metadata"]["name"].as_str()))
        .map(|name| name.expect("a name"))
        .collect();
    for mount in container["volumeMounts"].as_vec().expect("mounts") {
        assert!(volumes.contains(&mount["name"].as_str().expect("a name")), "{mount:?}");
    }
}

#[test]
fn what_a_pool_may_become_fits_into_its_volume() {
    let gib = |text: &str| text.strip_suffix("Gi").and_then(|n| n.parse::<u64>().ok()).expect("Gi");
    let base = &yaml("kubernetes/base/statefulset.yaml")[0]["spec"];
    let claim = &base["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
    let memory = &base["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"];
    let values = configured(Some("kubernetes/base/perdura.conf"), &[]);
    let taken = values.pool_size + values.journal_size;
    assert!(taken < gib(claim.as_str().expect("a size")) << 30);
    assert!(values.pool_size < gib(memory.as_str().expect("a size")) << 30);
    let values = configured(Some("kubernetes/fsdax/perdura.conf"), &[]);
    let volume = &yaml("kubernetes/fsdax/volume.yaml")[1]["spec"];
    let size = gib(volume["capacity"]["storage"].as_str().expect("a size"));
    assert!(values.backend.name() == "pmem" && values.pool_size < size << 30);
    let class = volume["storageClassName"].as_str().expect("a class");
    let patch = text("kubernetes/fsdax/kustomization.yaml");
    assert!(patch.contains(&format!("value: {class}\n")) && patch.contains(&format!("{size}Gi")));
}

#[test]
fn every_resource_that_kustomize_reads_is_there() {
    for folder in ["kubernetes/base", "kubernetes/fsdax", "kubernetes/sentinel"] {
        let file = &yaml(&format!("{folder}/kustomization.yaml"))[0];
        for name in words(&file["resources"]) {
            assert!(path(folder).join(name).exists(), "{folder}: {name}");
        }
        for name in words(&file["configMapGenerator"][0]["files"]) {
            assert!(path(folder).join(name).exists(), "{folder}: {name}");
        }
    }
    let policy = &yaml("kubernetes/base/networkpolicy.yaml")[0]["spec"];
    let service = &yaml("kubernetes/base/service.yaml")[0]["spec"];
    let values = configured(Some("kubernetes/base/perdura.conf"), &[]);
    let port = |rule: usize| policy["ingress"][rule]["ports"][0]["port"].as_i64();
    assert_eq!(port(0), Some(i64::from(values.port)));
    assert_eq!(port(1), Some(i64::from(values.metrics_port)));
    assert_eq!(service["ports"][0]["port"].as_i64(), Some(i64::from(values.port)));
}

#[test]
fn the_network_policy_is_about_this_pod_and_lets_its_clients_in() {
    let kustomization = &yaml("kubernetes/base/kustomization.yaml")[0];
    let labels = &kustomization["labels"][0];
    assert_eq!(labels["includeSelectors"].as_bool(), Some(true));
    let own = labels["pairs"].as_hash().expect("labels");
    let policy = &yaml("kubernetes/base/networkpolicy.yaml")[0]["spec"];
    // An empty selector would select every pod of the namespace, and stay empty.
    assert_eq!(policy["podSelector"]["matchLabels"].as_hash(), Some(own));
    // Perdura's label would be added to matchLabels here.
    let clients = &policy["ingress"][0]["from"][0]["podSelector"];
    assert!(clients["matchLabels"].is_badvalue(), "{clients:?}");
    let expressions = clients["matchExpressions"].as_vec().expect("expressions");
    assert_eq!(expressions.len(), 1);
    let text = |name: &str| expressions[0][name].as_str();
    assert_eq!((text("key"), text("operator")), (Some("perdura-client"), Some("In")));
    assert_eq!(words(&expressions[0]["values"]), ["true"]);
}

#[test]
fn compose_publishes_what_the_server_listens_on() {
    let file = &yaml("compose.yaml")[0];
    let service = &file["services"]["perdura"];
    let values = configured(None, &words(&service["command"]));
    let port = values.port;
    assert_eq!(words(&service["ports"]), [format!("127.0.0.1:{port}:{port}")]);
    assert_eq!(words(&service["expose"]), [values.metrics_port.to_string()]);
    assert_eq!(values.metrics_bind.to_text(), "*");
    let build = &service["build"];
    let context = build["context"].as_str().expect("a context");
    assert_eq!(context, "../target/dist/image");
    let containerfile =
        Path::new("target/dist/image").join(build["dockerfile"].as_str().expect("a path"));
    let parts: Vec<_> = containerfile.iter().skip(6).collect();
    assert_eq!(parts, ["deploy", "Containerfile"], "{}", containerfile.display());
    let declared = file["volumes"].as_hash().expect("volumes");
    for service in file["services"].as_hash().expect("services").values() {
        for volume in words(&service["volumes"]) {
            let from = volume.split(':').next().expect("a name");
            let is_there = match from.starts_with("./") {
                true => path(from).exists(),
                false => declared.contains_key(&Yaml::String(from.to_owned())),
            };
            assert!(is_there, "{volume}");
        }
    }
    let targets = &yaml("prometheus/prometheus.yml")[0]["scrape_configs"][0]["static_configs"][0];
    let target = format!("perdura:{}", values.metrics_port);
    assert_eq!(words(&targets["targets"]), [target]);
    for name in ["datasources/prometheus.yaml", "dashboards/perdura.yaml"] {
        assert_eq!(
            yaml(&format!("grafana/provisioning/{name}"))[0]["apiVersion"].as_i64(),
            Some(1)
        );
    }
}

#[test]
fn three_servers_with_sentinels_have_state_and_names_of_their_own() {
    for conf in ["sentinel/perdura.conf", "kubernetes/sentinel/perdura.conf"] {
        let values = configured(Some(conf), &[]);
        // One of three may be away.
        assert_eq!(
            (values.min_replicas_to_write, values.port, values.metrics_port),
            (1, 6379, 9121)
        );
        assert_eq!([values.bind, values.metrics_bind].map(|bind| bind.to_text()), ["*"; 2]);
    }
    let file = &yaml("compose-sentinel.yaml")[0];
    let server = &file["x-server"];
    let program = ["/usr/bin/perdura-server", "/data/perdura.conf", "--dir", "/data"];
    assert_eq!(words(&server["entrypoint"]), program);
    let peers = file["x-environment"]["SENTINELS"].as_str().expect("names").split(' ');
    let scraped = &yaml("sentinel/prometheus.yml")[0]["scrape_configs"][0]["static_configs"][0];
    let (peers, scraped) = (peers.collect::<Vec<_>>(), words(&scraped["targets"]));
    for number in 1..=3 {
        let of = |kind: &str| &file["services"][&*format!("{kind}-{number}")];
        let volumes = |kind: &str| words(&of(kind)["volumes"]);
        let name = |kind: &str| of(kind)["environment"]["NAME"].as_str().expect("a name");
        let data = &*format!("data-{number}:/data");
        assert!(volumes("prepare").contains(&data) && volumes("perdura").contains(&data));
        assert!(volumes("sentinel").contains(&&*format!("sentinel-{number}:/data")));
        assert_eq!(name("prepare"), format!("perdura-{number}"));
        assert_eq!(peers[number - 1], name("sentinel"));
        assert_eq!(scraped[number - 1], format!("perdura-{number}:9121"));
        for volume in [volumes("prepare"), volumes("perdura"), volumes("sentinel")].concat() {
            let from = volume.split(':').next().expect("a name");
            assert!(!from.starts_with("./") || path(from).exists(), "{volume}");
        }
    }
    let set = &yaml("kubernetes/sentinel/statefulset.yaml")[0]["spec"];
    assert_eq!(set["replicas"].as_i64(), Some(peers.len() as i64));
    let containers = &set["template"]["spec"]["containers"];
    assert_eq!(words(&containers[0]["command"]), program);
    // The same script, program and port in both.
    let start = |command: &Yaml| words(command)[2].replace("/etc/perdura/prepare", "/etc/prepare");
    assert_eq!(start(&containers[1]["command"]), start(&file["x-sentinel"]["entrypoint"]));
    let port = containers[1]["ports"][0]["containerPort"].as_i64().expect("a port");
    assert!(text("kubernetes/sentinel/prepare").contains(&format!("\"port {port}\"")));
    let images = [&file["x-prepare"]["image"], &file["x-sentinel"]["image"]];
    let pinned = &yaml("kubernetes/sentinel/kustomization.yaml")[0]["images"][0];
    let image = format!("redis:{}", pinned["newTag"].as_str().expect("a version"));
    assert_eq!(images.map(|image| image.as_str()), [Some(&*image); 2]);
}

#[test]
fn the_image_runs_without_root_and_says_how_it_is() {
    let file = text("Containerfile");
    let values = configured(None, &[]);
    assert!(file.contains(&format!("\nEXPOSE {} 9121\n", values.port)));
    assert!(file.contains("\nUSER 65532:65532\n") && file.contains("\nSTOPSIGNAL SIGTERM\n"));
    let check = file.lines().find(|line| line.starts_with("HEALTHCHECK")).expect("a health check");
    assert!(check.ends_with(r#"CMD ["/usr/bin/perdura", "ping"]"#), "{check}");
    assert!(file.contains(r#"ENTRYPOINT ["/usr/bin/perdura-server", "--dir", "/data"]"#));
    // The advice for another port works without a shell.
    let advice = "healthcheck: {test: [CMD, /usr/bin/perdura, ping, \"127.0.0.1:6380\"]}";
    assert!(file.contains(advice) && file.contains("docker run --no-healthcheck"));
    let check = &YamlLoader::load_from_str(advice).expect("YAML")[0]["healthcheck"]["test"];
    assert_eq!(words(check), ["CMD", "/usr/bin/perdura", "ping", "127.0.0.1:6380"]);
}

#[test]
fn the_unit_starts_a_server_that_notifies_systemd() {
    let unit = text("perdura.service");
    let value = |name: &str| {
        let start = format!("{name}=");
        let found = unit.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let start = value("ExecStart");
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words[..2], ["/usr/bin/perdura-server", "/etc/perdura/perdura.conf"]);
    assert_eq!(words[2..4], ["--dir", &*format!("/var/lib/{}", value("StateDirectory"))]);
    let values = configured(Some("perdura.conf"), &words[4..]);
    assert_eq!((value("Type").as_str(), values.supervised.name()), ("notify", "systemd"));
    // Its socket is a unix one, and its sign is one of a thread that looks ten times a second.
    assert!(value("RestrictAddressFamilies").contains("AF_UNIX"));
    assert!(value("WatchdogSec").parse::<u64>().expect("seconds") >= 60);
}
