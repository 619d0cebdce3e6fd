"""The verbs of the built-in corpus, by the frames they fill.

English principal parts ("see saw seen"; a regular verb gives its base alone), German ones as a dictionary prints them
(infinitive, third person singular, past, participle), the separable prefix, and the auxiliary of the perfect. `particle` is
an English word that goes with the verb: one that answers to the German prefix ("get up", "aufstehen") or, when `loose`, one
without a German word of its own ("look for", "suchen"). `preposition` is the German preposition that answers to it
("wait for", "warten auf"). Verbs whose English past is their present ("read", "put") are left out: German would have to guess.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """One verb in both languages."""

    english: str
    german: str
    prefix: str = ""
    being: bool = False
    particle: str = ""
    loose: bool = False
    preposition: str = ""


FIND = Verb("find found found", "finden findet fand gefunden")
LOOK_FOR = Verb("look", "suchen sucht suchte gesucht", particle="for", loose=True)
BUY = Verb("buy bought bought", "kaufen kauft kaufte gekauft")
SELL = Verb("sell sold sold", "verkaufen verkauft verkaufte verkauft")
FORGET = Verb("forget forgot forgotten", "vergessen vergisst vergaß vergessen")
NEED = Verb("need", "brauchen braucht brauchte gebraucht")
HAVE = Verb("have had had", "haben hat hatte gehabt")
SEE = Verb("see saw seen", "sehen sieht sah gesehen")
LOVE = Verb("love", "lieben liebt liebte geliebt")
KNOW = Verb("know knew known", "kennen kennt kannte gekannt")
DRAW = Verb("draw drew drawn", "zeichnen zeichnet zeichnete gezeichnet")
VISIT = Verb("visit", "besuchen besucht besuchte besucht")
CALL = Verb("call", "rufen ruft rief gerufen", prefix="an")
INVITE = Verb("invite", "laden lädt lud geladen", prefix="ein")
EAT = Verb("eat ate eaten", "essen isst aß gegessen")
BAKE = Verb("bake", "backen backt backte gebacken")
DRINK = Verb("drink drank drunk", "trinken trinkt trank getrunken")
ORDER = Verb("order", "bestellen bestellt bestellte bestellt")
TAKE = Verb("take took taken", "nehmen nimmt nahm genommen")
CARRY = Verb("carry", "tragen trägt trug getragen")
WRITE = Verb("write wrote written", "schreiben schreibt schrieb geschrieben")
TRANSLATE = Verb("translate", "übersetzen übersetzt übersetzte übersetzt")
UNDERSTAND = Verb("understand understood understood", "verstehen versteht verstand verstanden")
OPEN = Verb("open", "machen macht machte gemacht", prefix="auf")
CLOSE = Verb("close", "machen macht machte gemacht", prefix="zu")
TURN_ON = Verb("turn", "schalten schaltet schaltete geschaltet", prefix="ein", particle="on")
TURN_OFF = Verb("turn", "schalten schaltet schaltete geschaltet", prefix="aus", particle="off")
REPAIR = Verb("repair", "reparieren repariert reparierte repariert")
HELP = Verb("help", "helfen hilft half geholfen")
THANK = Verb("thank", "danken dankt dankte gedankt")
FOLLOW = Verb("follow", "folgen folgt folgte gefolgt", being=True)
LISTEN = Verb("listen", "hören hört hörte gehört", prefix="zu", particle="to", loose=True)
GIVE = Verb("give gave given", "geben gibt gab gegeben")
SHOW = Verb("show showed shown", "zeigen zeigt zeigte gezeigt")
SEND = Verb("send sent sent", "schicken schickt schickte geschickt")
BRING = Verb("bring brought brought", "bringen bringt brachte gebracht")
LAY = Verb("lay laid laid", "legen legt legte gelegt")
THROW = Verb("throw threw thrown", "werfen wirft warf geworfen")
WAIT_FOR = Verb("wait", "warten wartet wartete gewartet", particle="for", preposition="auf")
THINK_OF = Verb("think thought thought", "denken denkt dachte gedacht", particle="of", preposition="an")
SLEEP = Verb("sleep slept slept", "schlafen schläft schlief geschlafen")
WORK = Verb("work", "arbeiten arbeitet arbeitete gearbeitet")
PLAY = Verb("play", "spielen spielt spielte gespielt")
SIT = Verb("sit sat sat", "sitzen sitzt saß gesessen")
SING = Verb("sing sang sung", "singen singt sang gesungen")
DANCE = Verb("dance", "tanzen tanzt tanzte getanzt")
GO = Verb("go went gone", "gehen geht ging gegangen", being=True)
RUN = Verb("run ran run", "laufen läuft lief gelaufen", being=True)
DRIVE = Verb("drive drove driven", "fahren fährt fuhr gefahren", being=True)
GET_UP = Verb("get got got", "stehen steht stand gestanden", prefix="auf", being=True, particle="up")
WAKE_UP = Verb("wake woke woken", "wachen wacht wachte gewacht", prefix="auf", being=True, particle="up")
ARRIVE = Verb("arrive", "kommen kommt kam gekommen", prefix="an", being=True)
COME_BACK = Verb("come came come", "kommen kommt kam gekommen", prefix="zurück", being=True, particle="back")
SAY = Verb("say said said", "sagen sagt sagte gesagt")
BELIEVE = Verb("believe", "glauben glaubt glaubte geglaubt")
KNOW_THAT = Verb("know knew known", "wissen weiß wusste gewusst")
HOPE = Verb("hope", "hoffen hofft hoffte gehofft")
TRY = Verb("try", "versuchen versucht versuchte versucht")
PROMISE = Verb("promise", "versprechen verspricht versprach versprochen")
BEGIN = Verb("begin began begun", "beginnen beginnt begann begonnen")
BE = Verb("be was been", "sein ist war gewesen", being=True)

PERSON_VERBS = (SEE, LOVE, KNOW, VISIT, CALL, INVITE, UNDERSTAND, FIND, LOOK_FOR)
ANIMAL_VERBS = (SEE, LOVE, DRAW, FIND, LOOK_FOR, BUY, HAVE)
THING_VERBS = (SEE, BUY, SELL, FIND, LOOK_FOR, NEED, FORGET, TAKE, CARRY, HAVE)
FINDING_VERBS = (BUY, FIND, LOOK_FOR, FORGET)
FOOD_VERBS = (EAT, BUY, TAKE, SELL)
DRINK_VERBS = (DRINK, ORDER, BUY)
TEXT_VERBS = (WRITE, TRANSLATE, UNDERSTAND, FORGET)
OPEN_VERBS = (OPEN, CLOSE, SEE)
DEVICE_VERBS = (TURN_ON, TURN_OFF, REPAIR, BUY)
DATIVE_VERBS = (HELP, THANK, FOLLOW, LISTEN)
GIVING_VERBS = (GIVE, SHOW, SEND, BRING)
LAYING_VERBS = (LAY, THROW)
PREPOSITION_VERBS = (WAIT_FOR, THINK_OF)
PLACE_VERBS = (SLEEP, WORK, PLAY, SIT, SING, DANCE)
MOTION_VERBS = (GO, RUN, DRIVE)
PREFIX_VERBS = (GET_UP, WAKE_UP, ARRIVE, COME_BACK)
SAYING_VERBS = (SAY, BELIEVE, KNOW_THAT, HOPE)
TRYING_VERBS = (TRY, PROMISE, BEGIN, FORGET)
WHAT_VERBS = (
    SEE,
    BUY,
    SELL,
    FIND,
    LOOK_FOR,
    NEED,
    FORGET,
    TAKE,
    CARRY,
    EAT,
    DRINK,
    WRITE,
    TRANSLATE,
    UNDERSTAND,
    OPEN,
    CLOSE,
    REPAIR,
)
MEANT_VERBS = (NEED, FORGET, FIND, SELL)
INVOLUNTARY = (HAVE, NEED, LOVE, KNOW, SEE, FIND, UNDERSTAND, FORGET, ARRIVE, GET_UP, WAKE_UP)
