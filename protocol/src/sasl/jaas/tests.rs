use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> (String, Vec<(String, String)>) {
    let module = JaasModule::parse(text).unwrap();
    let options = module.options.iter().map(|(n, v)| (n.clone(), v.expose().to_owned()));
    (module.simple_class().to_owned(), options.collect())
}

fn option(text: &str) -> String {
    parse(&format!("M required o={text};")).1.remove(0).1
}

#[test]
fn what_javas_users_paste_is_read() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n  username=\"alice\" \\\n password=\"alice-secret\";";
    // The backslashes belong to the properties file and are gone when the value arrives.
    let (class, options) = parse(&plain.replace("\\\n", "\n"));
    assert_eq!(class, "PlainLoginModule");
    assert_eq!(
        options,
        [
            ("username".to_owned(), "alice".to_owned()),
            ("password".to_owned(), "alice-secret".to_owned())
        ]
    );
    let event_hubs = "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required username=\"$ConnectionString\" password=\"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=R;SharedAccessKey=a+b/c=\";";
    let (class, options) = parse(event_hubs);
    assert_eq!(class, "PlainLoginModule");
    assert_eq!(options[0].1, "$ConnectionString");
    assert!(options[1].1.ends_with("SharedAccessKey=a+b/c="));
    let iam = parse("software.amazon.msk.auth.iam.IAMLoginModule required;");
    assert_eq!(iam, ("IAMLoginModule".to_owned(), vec![]));
}

#[test]
fn values_are_unquoted_as_java_does() {
    for (text, expected) in [
        (r#""a b""#, "a b"),
        ("'it\"s'", "it\"s"),
        (r#""a\"b""#, "a\"b"),
        (r#""\\""#, "\\"),
        (r#""\t\n\101\7x\400""#, "\t\nA\u{7}x 0"),
        (r#""a;b=c//d/*e*/""#, "a;b=c//d/*e*/"),
        ("bare-word_1", "bare-word_1"),
        ("12345", "12345"),
        ("https://x/y?z", "https://x/y?z"),
        ("\"\"", ""),
    ] {
        assert_eq!(option(text), expected, "{text}");
    }
}

#[test]
fn comments_are_skipped() {
    let text = "/* who */ M // the module\n Required /* what */ a=b // end\n ;";
    assert_eq!(parse(text).1, [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn errors_say_where_and_never_show_a_value() {
    use JaasProblem::*;
    for (text, position, problem) in [
        ("", 1, NoModule),
        ("  ", 3, NoModule),
        ("M", 2, NoFlag),
        ("M;", 2, NoFlag),
        ("M username=a;", 3, UnknownFlag),
        ("M required a;", 13, NoEquals),
        ("M required a b;", 14, NoEquals),
        ("M required a=;", 14, NoValue),
        ("M required =a;", 12, NoOption),
        ("M required password=\"hunter2", 21, OpenQuotes),
        ("M required password=\"hunter2\n\";", 21, OpenQuotes),
        ("M required password=\"hunter2\"", 30, NoSemicolon),
        ("M required /* a=b;", 12, OpenComment),
        ("M required a=b; N required;", 17, SecondModule),
        ("M required a=b a=c;", 16, RepeatedOption),
    ] {
        let error = JaasModule::parse(text).unwrap_err();
        assert_eq!(error, JaasError { position, problem }, "{text}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn a_module_does_not_show_its_values() {
    let module = JaasModule::parse("M required username=u password=\"hunter2\";").unwrap();
    assert_eq!(
        format!("{module:?}"),
        r#"JaasModule { class: "M", options: ["username", "password"] }"#
    );
    assert_eq!(module.option("password").unwrap().expose(), "hunter2");
}

proptest! {
    #[test]
    fn any_value_survives_quoting(value in "\\PC{0,40}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(option(&format!("\"{quoted}\"")), value);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,80}") {
        if let Err(error) = JaasModule::parse(&text) {
            prop_assert!(error.position <= text.chars().count() + 1);
        }
    }
}
