"""Likelihood of a text in several languages: its cost in bits by a model of single characters.

A decoding with a wrong encoding consists of rare characters, so it costs more than the right one. Encodings of Chinese
and English are told apart from one another and from encodings of other languages, which need a model for that reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from math import log2

# The most frequent characters that are not ASCII, most frequent first.
FREQUENT = {
    "Chinese": (
        "，的。不是一大有了人我国上中图在年很本生房、个好新高价这！子金开小时出还到点发书就后来家日看为可会没要元能行下也考间地机美网学成月以多基店比用天现业自市对公酒被将最电万过分都前说方动得女三期全盘和"
        "理名务作手场面感股服度内外住平起入重当心实长装么文去里事主经明与称之错们无次海情回利组收定车星首游通意合法但打太力觉于北台他男品想买东热两第者水报居安西再资工然总京门部商战指只如客员加道推所体因常评非"
        "产老强华联系相进级斯货关给光售布交格英真单样同周友统题性其招楼较送数建信调山位身购保特专解赛应反果持结问别知城四民头死线选差而你受马试已超科二读提儿卡话视变费计些望让正预那爱球什快量区获王军亿完巴代司"
        "世少复精风活标增接放己影续遭涨化火走尔投早设程戏空便传喜近至色求师银孩更亚做研款南值件政口带难乐半取证队议才观容等花阿语广欢原节质认气校张显足准户低教着失餐版清五向跌港像均岁折改从表告路或米套板升未州"
        "？：；（）“”《》"
        "為國於時個學會後這與發來區軍對並長爾過現開動當戰間體種亞進東業經電內機車兩該們員場總稱隊將數華馬達羅聯著設約樂關統賽從說產則線選議無認實類組務義計資書號帶結傳廣門屬視語獲還據權決節級術導變親參條別單爭團"
        "點遊論萬師應專灣圖許兒強處頭給記較歷離畫劇張終舉戲樣創漢氣層轉見隨職愛題調歐裡問報觀辦陸構環態連裝聲熱營話幾質護責讓館歲評狀謝謎貴買賣錢壞麗舒樓價訂錯讚熟遠難"
    ),
    "Japanese": (
        "のにいるはをたとがでてしなれす、。さんらこかもあリまっスーきントりドルくプうラ"
        "よだどけえアめクせイそログテコバシちみマタつレフばおやムィカわデサべジァほニャダ"
        "ろパずキウモメじへナケごょャふぶチオねビゃむソュひネゆブペゲゴげァセエ日一人年大会本中出者上国行時分事間見月手合方場自生今後前同最小子部地高下業名"
        "入力対物理学使用東新代思定体動性食円金法発外目社店円変確認表示開電話車長品気当入書来数多無料何度回円"
    ),
    "Korean": (
        "다이는의가을고에하지로도기한서를은사어아자나리해인대시과정있그일수부게들여보라적제원으주만구장조성동세었전중안스우비오공요상무경실신경연화니거마면방모식습치위용모바좋음합때말없야내관차물저점명문분"
        "생소선년월님네된할했던더것입러미려단국진재회유트감행드"
    ),
    "Russian": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъёОНПСВДТКИМАРБЗЧЯУЭЛЕГХФШЖЮЦ",
    "Greek": "αοιετσνηυρπκμλωςάόίέδγχήθφύώβξζψΑΤΟΕΚΠΜΣΔΝΗΙ",
    "Hebrew": "יוהלארתבשמנםעקדחפכגטצסןזךץףס",
    "Arabic": "اليمنتروبهةدعسفكقحجأطصشىخإءزثذغئضظآؤ",
    "Thai": "านรอกเงมยลวดทสตะปบคหแจพชขใไโผซธถศณ่้ัิีุู์ึ็",
    "English": "’“”é‘–…—£€ñüöèçáíóäêàïôâîëåøæ•ßãúõûùòìœýðþÉÄÖÜÀÅØÇÁÈÊÓÆÑÍŒ",
    "French": "éèàêç’ôîâûùœëï«»ÉÀÈÊÇ",
    "German": "üäößÜÄÖ„“–",
    "Spanish": "óáíéñú¿¡üÁÓÑÍÉÚ",
    "Italian": "èàùòìé’ÈÀ",
    "Portuguese": "ãçáéóíêõâúôàÉÁÀ",
    "Nordic": "äåöøæéÅÄÖØÆ",
    "Polish": "łąęóśżćńźŁŚŻÓĆ",
    "Czech": "íáéěřčžýšůúňťďôľĺŽČŠŘÚ",
    "Hungarian": "áéöóőüíúűÁÉÖŐ",
    "Romanian": "ăîâşţșțĂÎÂŞŢ",
    "Baltic": "āīēšėūžųįčņļąģķęŠŽĀ",
    "Turkish": "ışğüçöİŞÜÇÖĞâî",
}
WESTERN = ("English", "French", "German", "Spanish", "Italian", "Portuguese", "Nordic")
CENTRAL = ("Polish", "Czech", "Hungarian", "Romanian", "Baltic")
OWN_LANGUAGES = ("Chinese", *WESTERN)
FREQUENT_SHARE = 0.85  # probability of all the frequent characters of a language together
OTHER_LANGUAGE_COST = 10.0  # bits by which any other language is less likely a priori
ASCII_COST, CONTROL_COST, ODD_COST = 5.0, 40.0, 10.0
REPLACEMENT = "\ufffd"  # the character for an invalid byte
PUNCTUATION = set("–—‘’“”…·•«»€£¥©®™°±×½¼²³§´¨\xa0")
# Cost of a rare character by the first word of its Unicode name, in the languages where it is less than FOREIGN_COST
RARE_COSTS: dict[str, dict[str, float]] = {
    "HIRAGANA": {"Japanese": 10, "Chinese": 12, "Korean": 15},
    "KATAKANA": {"Japanese": 10, "Chinese": 12, "Korean": 15},
    "HALFWIDTH": {"Japanese": 15},
    "LATIN": dict.fromkeys((*WESTERN, *CENTRAL, "Turkish"), 12.0) | {"Chinese": 15.0},
    "CYRILLIC": {"Russian": 12, "Chinese": 16},
    "GREEK": {"Greek": 12, "Chinese": 16, "English": 16},
    "HEBREW": {"Hebrew": 12},
    "ARABIC": {"Arabic": 12},
    "THAI": {"Thai": 10},
}
SYMBOLS = {"FULLWIDTH", "IDEOGRAPHIC", "LEFT", "RIGHT", "CIRCLED", "BLACK", "WHITE", "KATAKANA-HIRAGANA", "WAVE"}
SYMBOL_COSTS = {"Chinese": 10.0, "Japanese": 10.0, "Korean": 11.0} | dict.fromkeys(WESTERN, 16.0)
# encodings, and the range of the first byte, of the common characters of a script
LEVELS: dict[str, dict[str, list[tuple[str, int, int]]]] = {
    "CJK": {
        "Chinese": [("gb2312", 0xB0, 0xD7), ("big5", 0xA4, 0xC6)],
        "Japanese": [("shift_jis", 0x88, 0x97)],
    },
    "HANGUL": {"Korean": [("euc_kr", 0xB0, 0xC8)]},
}
COMMON_COST, UNCOMMON_COST, FOREIGN_COST = 13.0, 18.0, 20.0
# Sequences that hardly any language has: an accented upper-case letter after a lower-case one, scripts that change in a
# word, several accents in a row, letters that are no word alone, and a symbol in a word.
ODD = re.compile(
    r"[a-zß-öø-ÿа-я][À-ÖØ-ÞŠŽŒА-Я]|[ß-öø-ÿ][A-Z]|[A-Za-z][\u0370-\u0eff]|[\u0370-\u0eff][A-Za-z]|[À-ÖØ-öø-ž](?=[À-ÖØ-öø-ž]{2})"
    r"|[a-z][\u3400-\u9fff\uac00-\ud7a3\uff61-\uff9f](?=[a-z])"
    r"|(?<![^\W\d_])[ŒœŠšŽžŸ](?![^\W\d_])"
    r"|[^\W\d_](?:[¡-¶¸-¾‚„†‡ˆ‰‹›“”•˜™](?=[^\W\d_])|[¿¡])"
)


def most_likely_language(text: str, languages: Iterable[str]) -> tuple[float, str]:
    """Return the lowest cost of the text in bits in one of the `languages`, and this language."""
    counts = Counter(text)
    shared = sum(
        number * (ASCII_COST if character.isprintable() or character in "\t\r\n" else CONTROL_COST)
        for character, number in counts.items()
        if character < "\x80"
    )
    shared += ODD_COST * sum(1 for _ in ODD.finditer(text))
    others = {character: number for character, number in counts.items() if character >= "\x80"}
    return min((shared + _cost(others, language), language) for language in languages)


def _cost(counts: dict[str, int], language: str) -> float:
    known = COSTS[language]
    prior = 0.0 if language in OWN_LANGUAGES else OTHER_LANGUAGE_COST
    return prior + sum(
        number * (known[character] if character in known else _rare_cost(character, language))
        for character, number in counts.items()
    )


def _frequent_costs(frequent: str, first: int) -> dict[str, float]:
    """Return the cost of each character by Zipf's law, with ranks from `first`."""
    shares = {character: 1 / (rank + first) for rank, character in enumerate(dict.fromkeys(frequent))}
    total = sum(shares.values())
    return {character: -log2(FREQUENT_SHARE * share / total) for character, share in shares.items()}


COSTS = {
    language: _frequent_costs(frequent, 8 if language in {"Chinese", "Japanese", "Korean"} else 1)
    for language, frequent in FREQUENT.items()
}


@cache
def _rare_cost(character: str, language: str) -> float:
    """Return the cost of a character that is not one of the frequent ones of a language."""
    if character in PUNCTUATION:
        return 9.0
    if character == REPLACEMENT or unicodedata.category(character) in {"Cc", "Cn", "Co", "Cs"}:
        return CONTROL_COST
    script = unicodedata.name(character, "-").split()[0]
    if script in SYMBOLS:
        return SYMBOL_COSTS.get(language, FOREIGN_COST)
    if script in LEVELS and language in LEVELS[script]:
        return COMMON_COST if any(_is_in(character, *level) for level in LEVELS[script][language]) else UNCOMMON_COST
    return RARE_COSTS.get(script, {}).get(language, FOREIGN_COST)


def _is_in(character: str, encoding: str, first: int, last: int) -> bool:
    """Return whether a character has two bytes in an encoding, the first of them between `first` and `last`."""
    data = character.encode(encoding, "ignore")
    return len(data) == 2 and first <= data[0] <= last
